"""Whole programs inside a scope: language models, Gaussian processes, a batch in parts.

`make test-programs` makes an environment with the libraries that these need and runs them.
"""

from __future__ import annotations

import pytest
import torch

import widen
from widen.emulate.log import MissedProductError

pytestmark = pytest.mark.slow


def library(name):
    """A library that is no part of the tests' environment."""
    return pytest.importorskip(name, reason=f"{name} is not installed: make test-programs")


def steady():
    return widen.emulate(steady=True, bounds=False)


# ── language models: a prompt alone, and in a batch of 8 ─────────────────────────────────────────

SIZES = {"vocab_size": 200, "hidden_size": 64, "intermediate_size": 171, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 32}  # fmt: skip
FAMILIES = {
    "LlamaConfig": {**SIZES, "num_key_value_heads": 2},
    "GPT2Config": {"vocab_size": 200, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32},
    "GPTNeoXConfig": SIZES,
}


@pytest.fixture
def model(request):
    transformers = library("transformers")
    torch.manual_seed(0)
    configuration = getattr(transformers, request.param)(**FAMILIES[request.param])
    return transformers.AutoModelForCausalLM.from_config(configuration).eval()


@pytest.mark.parametrize("model", FAMILIES, indirect=True)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_logits_of_a_prompt_do_not_depend_on_the_batch(model, dtype):
    model = model.to(dtype)
    prompts = torch.randint(0, 200, (8, 19), generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), steady() as log:
        whole = model(prompts).logits
        alone = torch.cat([model(row[None]).logits for row in prompts])
        halves = torch.cat([model(rows).logits for rows in prompts.chunk(2)])
    assert torch.equal(whole, alone)
    assert torch.equal(whole, halves)
    assert log.taken
    assert not log.left
    with torch.no_grad():
        ordinary = model(prompts).logits
    assert torch.allclose(ordinary, whole, rtol=1e-2, atol=1e-2 if dtype != torch.float32 else 1e-4)


@pytest.mark.parametrize("model", ["LlamaConfig"], indirect=True)
def test_a_model_generates_the_same_text_in_every_batch(model):
    prompts = torch.randint(0, 200, (4, 7), generator=torch.Generator().manual_seed(2))
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad(), steady() as log:
        whole = model.generate(prompts, **options)
        alone = torch.cat([model.generate(row[None], **options) for row in prompts])
    assert torch.equal(whole, alone)
    assert log.taken
    assert not log.left


@pytest.mark.parametrize("model", ["GPT2Config"], indirect=True)
def test_a_model_is_trained_a_step(model):
    prompts = torch.randint(0, 200, (4, 9), generator=torch.Generator().manual_seed(3))
    gradients = []
    for _ in range(2):
        model.zero_grad()
        with steady() as log:
            model(prompts, labels=prompts).loss.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    assert all(torch.equal(x, y) for x, y in zip(*gradients, strict=True))
    assert any("backward" in row.notes for row in log.taken)
    assert not log.left


# ── Gaussian processes ───────────────────────────────────────────────────────────────────────────

X = torch.linspace(0, 1, 30, dtype=torch.float64)
Y = torch.sin(6 * X) + 0.1 * torch.cos(40 * X)


def fitted_with_gpytorch():
    """Losses of ten steps, and the mean at new places."""
    gpytorch = library("gpytorch")

    class Process(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    model = Process(X, Y, likelihood).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = -objective(model(X), Y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        return torch.tensor(losses), model(X[:7] + 0.01).mean


def fitted_with_botorch():
    """Parameters that L-BFGS finds, and the best place to look at next."""
    library("botorch")
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(0)
    model = SingleTaskGP(X[:, None], Y[:, None])
    fit_gpytorch_mll(
        ExactMarginalLogLikelihood(model.likelihood, model),
        optimizer_kwargs={"options": {"maxiter": 15}},
    )
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    place, _ = optimize_acqf(
        LogExpectedImprovement(model, Y.max()), bounds, q=1, num_restarts=2, raw_samples=8,
        options={"maxiter": 10},
    )  # fmt: skip
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]), place.reshape(-1)


@pytest.mark.parametrize("fit", [fitted_with_gpytorch, fitted_with_botorch])
def test_a_gaussian_process_is_fitted_in_float64(fit):
    """Products are taken over; factors, solves and products of integers are listed."""
    outside = fit()
    with widen.emulate(bounds=False) as log:
        inside = fit()
    with widen.emulate(bounds=False):
        again = fit()
    for ordinary, ours, repeated in zip(outside, inside, again, strict=True):
        assert torch.equal(ours, repeated)
        assert torch.allclose(ordinary, ours, rtol=1e-2, atol=1e-3)
    assert {row.dtype for row in log.taken} == {"float64"}
    assert any("cholesky" in row.operator for row in log.left)
    known = ("LAPACK", "product of integers does not round")
    assert all(any(words in row.reason for words in known) for row in log.left)
    with pytest.raises(MissedProductError, match="alone: "), widen.emulate(missed="raise"):
        fit()


# ── a batch in 1, 2 and 4 parts ──────────────────────────────────────────────────────────────────


def trained(parts):
    """Losses of four steps, and the weights; each weight's gradient is one product at the end."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(50, 32), torch.nn.Linear(32, 1)]
    model = torch.nn.Sequential(layers[0], torch.nn.SiLU(), layers[1])
    x = torch.randn(24, 50, generator=torch.Generator().manual_seed(1))
    y = x.square().sum(1, keepdim=True).sin()
    losses = []
    for _ in range(4):
        given, above = {layer: [] for layer in layers}, {layer: [] for layer in layers}

        def note(layer, args, out, given=given, above=above):
            given[layer].append(args[0].detach())
            out.register_hook(above[layer].append)

        hooks = [layer.register_forward_hook(note) for layer in layers]
        samples = []
        for rows in torch.arange(24).chunk(parts):
            errors = (model(x[rows]) - y[rows]).square()
            errors.sum().backward()
            samples.append(errors.detach())
        with torch.no_grad():
            for layer, hook in zip(layers, hooks, strict=True):
                hook.remove()
                grad = torch.cat(above[layer])
                layer.weight -= 1e-4 * (grad.mT @ torch.cat(given[layer]))
                layer.bias -= 1e-4 * (grad.mT @ torch.ones(24))
        losses.append(torch.cat(samples).double().sum().item())
    return losses, [parameter.detach() for parameter in model.parameters()]


def test_a_batch_in_parts_gives_the_same_losses_and_weights():
    with steady():
        (losses, weights), *others = (trained(parts) for parts in (1, 2, 4))
    for their_losses, their_weights in others:
        assert their_losses == losses
        assert all(torch.equal(x, y) for x, y in zip(weights, their_weights, strict=True))
