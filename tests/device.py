"""Where the tests of the torch worker run: on a CPU, unless DRAFTPROOF_DEVICE names another device.

`make gpu-check` sets it, for those tests that make sense on a GPU.
"""

import os

import torch

DEVICE = torch.device(os.environ.get("DRAFTPROOF_DEVICE", "cpu"))
