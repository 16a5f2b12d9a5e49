"""Triton kernels against their eager twins, interpreted unless DRAFTPROOF_DEVICE names a GPU."""

import torch
from device import DEVICE

from draftproof.gpu.kernels.loading import prepare

torch.set_num_threads(1)
prepare(DEVICE)  # before anything imports triton
