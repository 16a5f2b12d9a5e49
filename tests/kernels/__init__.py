"""Triton kernels, interpreted, against their eager twins."""

import torch

from draftproof.gpu.kernels.loading import prepare

torch.set_num_threads(1)
prepare(torch.device("cpu"))  # before anything imports triton
