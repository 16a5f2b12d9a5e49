"""Campaigns and the command line: the top of the import chain."""
