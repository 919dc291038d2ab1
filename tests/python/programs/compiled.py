"""torch.compile, each function against torch on the CPU: prints one line for each that is right."""

import torch
import torch.nn.functional as F


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def compare(name, function, *inputs, tolerance=1e-4, **options):
    result = torch.compile(function, **options)(*(x.cuda() for x in inputs))
    torch.testing.assert_close(result.cpu(), function(*inputs), rtol=tolerance, atol=tolerance)
    print("right:", name, flush=True)


def gradient(x, weight):
    weight = weight.detach().requires_grad_()
    torch.tanh(F.layer_norm(x @ weight, (20,))).square().sum().backward()
    return weight.grad


if __name__ == "__main__":
    compare("softmax", lambda x: torch.softmax(x, -1), random(33, 300))
    compare("layer norm", lambda x, w: F.layer_norm(x, (3000,), w), random(3, 3000), random(3000))
    compare("gelu of a product", lambda x, w: F.gelu(x @ w), random(32, 64), random(64, 48), tolerance=1e-3)
    x, weight = random(10, 40), random(40, 20)
    loss = torch.compile(lambda x, w: torch.tanh(F.layer_norm(x @ w, (20,))).square().sum())
    on_device = weight.cuda().requires_grad_()
    loss(x.cuda(), on_device).backward()
    torch.testing.assert_close(on_device.grad.cpu(), gradient(x, weight), rtol=1e-3, atol=1e-3)
    print("right: gradient", flush=True)
