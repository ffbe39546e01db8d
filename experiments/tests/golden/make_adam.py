"""Makes the golden values of tests/training.rs with PyTorch.

    pip install torch==2.9.0
    python make_adam.py > adam.json

Five steps of torch.optim.Adam (ε = 1e-8), with and without clip_grad_norm_, and five of the BERT authors' optimiser (no bias
correction, ε = 1e-6, decoupled decay 0.01 except on biases) written out from its definition, on fixed gradients.
"""

import json

import torch

torch.manual_seed(0)
start = {"weight": torch.randn(3, 4), "bias": torch.randn(4)}
gradients = [{name: torch.randn_like(value) * 2 for name, value in start.items()} for _ in range(5)]
rates = [1e-2, 3e-2, 1e-1, 5e-2, 1e-2]


def adam(clip):
    params = {name: torch.nn.Parameter(value.clone()) for name, value in start.items()}
    optimiser = torch.optim.Adam(params.values(), eps=1e-8)
    for gradient, rate in zip(gradients, rates):
        for name, param in params.items():
            param.grad = gradient[name].clone()
        if clip:
            torch.nn.utils.clip_grad_norm_(params.values(), clip)
        optimiser.param_groups[0]["lr"] = rate
        optimiser.step()
    return {name: param.detach().flatten().tolist() for name, param in params.items()}


def bert(clip):
    params = {name: value.clone().double() for name, value in start.items()}
    mean = {name: torch.zeros_like(value) for name, value in params.items()}
    square = {name: torch.zeros_like(value) for name, value in params.items()}
    for gradient, rate in zip(gradients, rates):
        norm = sum((g.double() ** 2).sum() for g in gradient.values()).sqrt()
        scale = min(1.0, clip / norm)
        for name in params:
            g = gradient[name].double() * scale
            mean[name] = 0.9 * mean[name] + 0.1 * g
            square[name] = 0.999 * square[name] + 0.001 * g * g
            update = mean[name] / (square[name].sqrt() + 1e-6)
            if name != "bias":
                update = update + 0.01 * params[name]
            params[name] = params[name] - rate * update
    return {name: value.flatten().tolist() for name, value in params.items()}


flat = lambda values: {name: value.flatten().tolist() for name, value in values.items()}
print(json.dumps({
    "start": flat(start), "gradients": [flat(g) for g in gradients], "rates": rates,
    "paper": adam(None), "paper_clipped": adam(1.0), "adapter_bert": bert(1.0),
}))
