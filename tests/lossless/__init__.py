"""Rejection sampling as a whole: its random numbers, its law, and what the measurement can find."""

import torch

from draftproof.gpu.kernels.loading import prepare

torch.set_num_threads(1)
prepare(torch.device("cpu"))  # before anything imports triton
