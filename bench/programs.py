"""Whole programs inside `widen.emulate`: which results become the same bits, and what it costs.

`python bench/programs.py transformer` builds small models from configurations of `transformers`,
without a download, and compares the logits of a prompt alone and in a batch of 8, outside and
inside. `gp` fits a Gaussian process with GPyTorch in float64. `training` trains a network with the
batch in 1, 2 and 4 steps of accumulation. `--device cuda` runs them on a GPU.
Needs: pip install transformers gpytorch.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from typing import Any

import torch

import widen


def scope(kind: str) -> Any:
    """No scope, one, or one with steady activations."""
    if kind == "outside":
        return nullcontext()
    return widen.emulate(steady=kind == "inside, steady", bounds=False)


KINDS = ("outside", "inside", "inside, steady")


# ── a language model: a prompt alone, and in a batch of 8 ────────────────────────────────────────


def models() -> dict[str, Any]:
    """Small models of three families."""
    from transformers import (
        AutoModelForCausalLM,
        GPT2Config,
        GPTNeoXConfig,
        LlamaConfig,
    )

    sizes = {"vocab_size": 500, "hidden_size": 128, "intermediate_size": 341}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
    configurations = {
        "Llama (silu)": LlamaConfig(num_key_value_heads=2, **sizes),
        "GPT-2 (gelu by tanh)": GPT2Config(
            vocab_size=500, n_embd=128, n_layer=2, n_head=4, n_positions=64, n_inner=341
        ),
        "GPT-NeoX (gelu)": GPTNeoXConfig(**sizes),
    }
    torch.manual_seed(0)
    return {
        name: AutoModelForCausalLM.from_config(configuration).eval()
        for name, configuration in configurations.items()
    }


def transformer(device: str) -> None:
    """Logits of each of 8 prompts alone, against those in the batch."""
    prompts = torch.randint(0, 500, (8, 19), generator=torch.Generator().manual_seed(1)).to(device)
    print("| model | dtype | where | prompts with other bits | largest difference | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, model in models().items():
        for dtype in (torch.float32, torch.bfloat16):
            model = model.to(device, dtype)
            for kind in KINDS:
                started = time.perf_counter()
                with torch.no_grad(), scope(kind):
                    whole = model(prompts).logits
                    alone = torch.cat([model(row[None]).logits for row in prompts])
                elapsed = time.perf_counter() - started
                differing = sum(not torch.equal(x, y) for x, y in zip(whole, alone, strict=True))
                largest = float((whole - alone).abs().max())
                row = name, str(dtype).removeprefix("torch."), kind, f"{differing} of 8"
                print("|", " | ".join((*row, f"{largest:.1e}", f"{elapsed:.1f}")), "|", flush=True)


# ── a Gaussian process ───────────────────────────────────────────────────────────────────────────


def fitted(device: str) -> tuple[list[float], Any]:
    """Losses of a fit with GPyTorch, and the mean at new places."""
    import gpytorch

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, x: Any, y: Any, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    torch.manual_seed(0)
    where: dict[str, Any] = {"dtype": torch.float64, "device": device}
    x = torch.linspace(0, 1, 60, **where)
    y = torch.sin(6 * x) + 0.1 * torch.cos(40 * x)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(**where)
    model = Process(x, y, likelihood).to(**where)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        return losses, model(torch.linspace(0, 1, 7, **where)).mean


def gp(device: str) -> None:
    """The fit outside and inside, and what the log says."""
    outside, before = fitted(device)
    with widen.emulate() as log:
        inside, after = fitted(device)
    print(f"loss after 20 steps: outside {outside[-1]:.15f}, inside {inside[-1]:.15f}")
    print(f"largest difference of the predicted mean: {float((before - after).abs().max()):.1e}")
    print(log)


# ── accumulation ─────────────────────────────────────────────────────────────────────────────────


def trained(steps: int, exact: bool, device: str) -> tuple[list[str], Any]:
    """Losses, as hexadecimal numbers, and the weights, with the batch in so many steps.

    The loss is a sum over samples, so that a part of the batch does not know how large it is.
    With `exact`, each layer's weight gradient is one product over the whole batch at the end: the
    inputs and the gradients above of all steps, one below the other.
    """
    torch.manual_seed(0)
    layers = [torch.nn.Linear(150, 96), torch.nn.Linear(96, 1)]
    model = torch.nn.Sequential(layers[0], torch.nn.SiLU(), layers[1]).to(device)
    x = torch.randn(60, 150, generator=torch.Generator().manual_seed(1)).to(device)
    y = x.square().sum(1, keepdim=True).sin()
    losses = []
    for _ in range(10):
        samples, seen = [], {layer: ([], []) for layer in layers}
        hooks: list[Any] = []
        if exact:
            for layer in layers:
                given, above = seen[layer]
                hooks.append(layer.register_forward_hook(
                    lambda _, args, out, given=given, above=above: (
                        given.append(args[0].detach()), out.register_hook(above.append), None)[-1]
                ))  # fmt: skip
        model.zero_grad()
        for rows in torch.arange(60, device=device).chunk(steps):
            errors = (model(x[rows]) - y[rows]).square()
            errors.sum().backward()
            samples.append(errors.detach())
        for hook in hooks:
            hook.remove()
        with torch.no_grad():
            for layer in layers:
                if exact:
                    given, above = (torch.cat(parts) for parts in seen[layer])
                    layer.weight.grad = above.mT @ given
                    layer.bias.grad = above.mT @ torch.ones(60, device=device)
            for parameter in model.parameters():
                parameter -= 1e-4 * parameter.grad
        losses.append(float(torch.cat(samples).double().sum()).hex())
    return losses, torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def training(device: str) -> None:
    """Losses of ten steps with the batch in 1, 2 and 4 parts."""
    print("| where | gradients of parts | first loss that differs | weights that differ |")
    print("| --- | --- | --- | --- |")
    for kind in KINDS:
        for exact in (False, True):
            with scope(kind):
                runs = [trained(steps, exact, device) for steps in (1, 2, 4)]
            (losses, weights), *others = runs
            steps = [at for other, _ in others for at, x in enumerate(other) if x != losses[at]]
            first = f"step {min(steps) + 1}" if steps else "none"
            count = sum(int((other != weights).sum()) for _, other in others)
            how = "one product at the end" if exact else "added by autograd"
            print(f"| {kind} | {how} | {first} | {count} of {2 * len(weights)} |")


def main() -> None:
    """Run a program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("program", choices=["transformer", "gp", "training"])
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {given.device}, {torch.get_num_threads()} threads")
    {"transformer": transformer, "gp": gp, "training": training}[given.program](given.device)


if __name__ == "__main__":
    main()
