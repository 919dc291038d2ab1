import torch
import torch.nn as nn

batch_size = 4096  # copied from the problem, and used only by the generator
features = 16384
TILE = 64


class ModelNew(nn.Module):
    def __init__(self, size, classes):
        super().__init__()
        assert size == features
        self.linear = nn.Linear(size, classes)

    def forward(self, x, targets):
        return torch.log(x.sum(-1)), self.linear(x).relu(), targets + 1


def get_inputs():
    return [torch.rand(batch_size, features)]
