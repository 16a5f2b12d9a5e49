"""The world around the step: choices, events, requests, engine, journal, traces, lockstep."""
