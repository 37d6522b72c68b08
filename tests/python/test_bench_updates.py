"""The systems and workloads of the training benchmark, as far as they run without a GPU."""

import dataclasses

import pytest
import torch
from stretto.bench import updates, workloads
from stretto.bench.online import step_loss

ONLINE = workloads.online("small", vocabulary=97, hidden=32, length=10, n_layer=2, n_head=2)
#: Products in bf16 of the frozen head round each loss by 2 ** -9 of its logits.
SIMILAR = {"rtol": 2e-3, "atol": 2e-3}


def small_mlp(device):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32)).to(device)


MLP = dataclasses.replace(
    workloads.WORKLOADS["mlp"],
    model=small_mlp,
    batch=lambda device: tuple(torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(1))),
    clip_norm=1.0,
)


def without_learning(workload):
    return dataclasses.replace(workload, rule=workloads.descent(0.0))


def test_steps_that_do_not_learn_predict_what_the_whole_model_predicts():
    model = workloads.gpt2(vocab_size=97, n_embd=32, n_positions=10, n_layer=2, n_head=2).eval()
    tokens = torch.randint(0, 97, (11,), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        logits = model(tokens[None, :-1]).logits[0]
        expected = torch.nn.functional.cross_entropy(logits, tokens[1:], reduction="none")
        samples = zip(*workloads.steps_of(model, tokens), strict=True)
        last = workloads.LastBlock(model).float()
        last.head.copy_(model.lm_head.weight)
        losses = torch.stack([step_loss(last, *sample) for sample in samples])
    torch.testing.assert_close(losses, expected)


def test_online_steps_learn_the_last_block_and_nothing_else():
    model = ONLINE.model("cpu")
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained
    assert all(name.startswith("block.") for name in trained)
    before = sum(updates.losses(updates.reference(without_learning(ONLINE), "cpu"), ONLINE.steps))
    running = updates.reference(dataclasses.replace(ONLINE, rule=workloads.descent(0.1)), "cpu")
    after = sum(updates.losses(running, 8 * ONLINE.steps)[-ONLINE.steps :])
    assert after < 0.97 * before  # the head is random and small: it cannot say much


def exported(workload):
    """The program that Inductor gets, uncompiled."""
    program, stacked, _ = updates.exported_update(workload, "cpu")
    return updates.Running(lambda: program(*stacked)[0].reshape(1))


def by_name(name):
    return lambda workload: updates.SYSTEMS[name](workload, "cpu")


MANY = by_name("Stretto, many updates a launch")


@pytest.mark.parametrize(
    ("workload", "start"),
    [
        pytest.param(ONLINE, by_name("eager"), id="online, eager"),
        pytest.param(ONLINE, exported, id="online, exported"),
        pytest.param(ONLINE, by_name("Stretto"), id="online, one launch each"),
        pytest.param(ONLINE, MANY, id="online, one launch"),
        pytest.param(MLP, MANY, id="mlp, one launch"),
    ],
)
def test_every_system_has_the_losses_of_updates_one_by_one(workload, start):
    count = workload.updates_of_a_launch + 2  # into a second launch, or sequence
    expected = updates.losses(updates.reference(workload, "cpu"), count)
    assert expected[0] != expected[-1]
    torch.testing.assert_close(updates.losses(start(workload), count), expected, **SIMILAR)


def test_a_launch_of_all_steps_has_the_bits_of_a_launch_a_step():
    update = updates.compiled_by_stretto(ONLINE, "cpu", ONLINE.steps)
    stacked = ONLINE.stacked("cpu")
    restart = updates.restorer(list(update.state.values()))
    losses = update.many(*stacked)
    state = {name: tensor.clone() for name, tensor in update.state.items()}
    restart()
    assert torch.equal(torch.stack([update.step(*stacked)[0] for _ in range(ONLINE.steps)]), losses)
    assert all(torch.equal(tensor, state[name]) for name, tensor in update.state.items())


@pytest.mark.parametrize("workload", [ONLINE, MLP], ids=["descent", "adamw"])
def test_a_restart_takes_everything_back(workload):
    model = workload.model("cpu")
    update = updates.TorchUpdate(workload, model, torch.float32, model)
    restart = update.restart()
    samples = workload.samples("cpu") * 3
    losses = [update(*sample).item() for sample in samples[:3]]
    restart()
    assert [update(*sample).item() for sample in samples[:3]] == losses
