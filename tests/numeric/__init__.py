"""The true mathematics of section 8b: by hand, in float64, on torch, and one step of each."""

import torch

from draftproof.gpu.kernels.loading import prepare

prepare(torch.device("cpu"))  # before anything imports triton
