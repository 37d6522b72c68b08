"""Updates in one launch that the host feeds while it runs."""

import threading
import time

import pytest
import stretto
import torch
from stretto.update_program import export_update
from update_models import batches, mlp, squared_error

SLOTS = 3


def compiled(**options):
    options = {"optimizer": stretto.AdamW(lr=1e-2, clip_norm=1.0), "updates_per_launch": SLOTS} | options
    return stretto.compile_update(mlp(), squared_error, example=batches(1)[0], **options)


@pytest.fixture(scope="module")
def shared():
    update = compiled()
    return update, copied(update.state_dict())


@pytest.fixture
def update(shared):
    """As if it had just been compiled."""
    update, start = shared
    update.load_state_dict(start)
    return update


def copied(state):
    return torch.utils._pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, state)


def values(update):
    return {name: tensor.clone() for name, tensor in update.state.items() if name not in ("losses", "norms")}


def assert_equal_bits(left, right):
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


def one_by_one(update, given):
    """The same program with a launch for each batch: (state, reports)."""
    reports = [report for batch in given for report in update.train([batch])]
    return values(update), reports


def slowly(given, seconds=0.003):
    for batch in given:
        time.sleep(seconds)
        yield batch


@pytest.mark.parametrize("feed", (iter, slowly), ids=("fast", "slow"))
def test_a_long_launch_has_the_bits_of_one_launch_for_each_batch(update, feed):
    given = batches(20)
    start = copied(update.state_dict())
    expected, expected_reports = one_by_one(update, given)
    update.load_state_dict(start)
    reports = list(update.train(feed(given)))
    assert reports == expected_reports
    assert [report.number for report in reports] == list(range(20))
    assert_equal_bits(values(update), expected)


@pytest.fixture(scope="module")
def single():
    return compiled(updates_per_launch=1)


def test_losses_and_norms_are_those_of_single_updates(update, single):
    given = batches(5)
    for report, batch in zip(update.train(given), given, strict=True):
        assert report.loss == pytest.approx(single(*batch).item(), rel=1e-5)
        assert report.gradient_norm == pytest.approx(single.gradient_norm.item(), rel=1e-5)


def test_a_slow_loop_does_not_hold_the_updates_up(update):
    training = update.train(batches(20))
    for report in training:
        if report.number == 0:
            while update.state["draws"].item() < 20:
                time.sleep(0.001)
    assert report.number == 19


def endless():
    while True:
        yield from batches(8)


def test_leaving_the_loop_keeps_the_last_whole_update(update):
    start = copied(update.state_dict())
    training = update.train(endless())
    for report in training:
        if report.number == 9:
            break
    rest = [report.number for report in training]
    done = update.count
    assert rest == list(range(10, done))
    stopped = values(update)
    update.load_state_dict(start)
    given = endless()
    expected, _ = one_by_one(update, [next(given) for _ in range(done)])
    assert_equal_bits(stopped, expected)


def test_an_interrupt_stops_like_any_other_exception(update):
    with pytest.raises(KeyboardInterrupt):
        for report in update.train(endless()):
            if report.number == 3:
                raise KeyboardInterrupt
    assert update.count >= 4
    before = threading.active_count()
    list(update.train(batches(2)))  # somebody else may go on
    assert threading.active_count() == before


def test_updates_bounds_their_number_and_the_rest_stays_in_the_iterator(update):
    given = iter(batches(6))
    assert len(list(update.train(given, updates=4))) == 4
    assert len(list(given)) == 2


def failing(count):
    yield from batches(count)
    raise OSError("the disk is gone")


def test_an_iterator_that_raises_ends_the_loop_behind_its_batches(update):
    reports = []
    with pytest.raises(OSError, match="the disk is gone"):
        for report in update.train(failing(5)):
            reports.append(report.number)
    assert reports == [0, 1, 2, 3, 4]
    assert update.count == 5


def test_a_batch_that_does_not_fit_is_named_and_those_before_it_count(update):
    x, y = batches(1)[0]
    given = [(x, y), (x[:4], y[:4])]
    with pytest.raises(stretto.UserError, match=r"^batch 1: input 'x' has shape \(4, 32\).* \(16, 32\)"):
        list(update.train(given))
    assert update.count == 1


def test_a_loss_that_is_not_finite_is_an_error(update):
    x, y = batches(1)[0]
    with pytest.raises(
        stretto.RunError, match=r"the loss of update 1 is (inf|nan).*\n.*skip_non_finite=True"
    ):
        list(update.train([(x, y), (x * float("inf"), y), (x, y)]))


def test_a_state_from_the_middle_goes_on_to_the_same_bits(update):
    given = batches(24)
    saved = None
    training = update.train(given)
    for report in training:
        if report.number == 7:
            saved = training.state_dict()
    whole = values(update)
    done = int(saved["update"]["draws"])
    assert 8 <= done <= 24
    update.load_state_dict(saved)
    for report in update.train(given[done:]):
        assert report.number >= done
    assert_equal_bits(values(update), whole)


def test_a_setting_changes_between_two_updates(update):
    training = update.train(endless())
    before = None
    for report in training:
        if report.number == 2 and before is None:
            training.set(lr=0.0, weight_decay=0.0)
            before = training.between_updates(lambda: update.state["model.0.weight"].clone())
        if report.number == 12:
            break
    assert torch.equal(update.state["model.0.weight"], before)
    update.set(lr=1e-2, weight_decay=1e-2)


def test_what_fails_between_two_updates_is_raised_where_it_was_asked_for(update):
    training = update.train(endless())
    for report in training:
        with pytest.raises(ZeroDivisionError):
            training.between_updates(lambda: 1 / 0)
        if report.number == 2:
            break


def test_an_update_that_trains_leaves_its_state_to_the_training(update):
    training = update.train(endless())
    refused = 0
    for report in training:
        for call in (update.state_dict, lambda: update.set(lr=1.0), lambda: update.many(*batches(1)[0])):
            try:
                call()
            except stretto.UserError as error:
                refused += "the update trains with other batches now" in str(error)
        with pytest.raises(stretto.UserError, match="the update trains with other batches now"):
            list(update.train(batches(1)))
        if report.number > 5 and refused:
            break
    assert refused


def test_training_that_could_not_begin_can_be_stopped(update):
    training = update.train(batches(1))
    with_other = update.train(endless())
    for _ in with_other:
        with pytest.raises(stretto.UserError, match="the update trains with other batches now"):
            list(training)
        training.stop()
        break
    assert list(training) == []


def test_training_needs_a_launch_of_several_updates(single):
    with pytest.raises(stretto.UserError, match="compile it with updates_per_launch"):
        single.train(batches(1))


def test_a_ring_is_compiled_without_the_memory_of_its_batches(monkeypatch):
    examples = []

    def spy(captured, recipe, state, args, kwargs):
        examples.append(args)
        return export_update(captured, recipe, state, args, kwargs)

    monkeypatch.setattr(stretto.update, "export_update", spy)
    compiled()
    for ring, batch in zip(examples[0], batches(1)[0], strict=True):
        assert ring.shape == (SLOTS, *batch.shape)
        assert ring.untyped_storage().nbytes() == batch.nbytes


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("feed", (iter, slowly), ids=("fast", "slow"))
def test_a_gpu_takes_batches_from_host_memory_while_its_kernel_runs(feed):
    example = tuple(x.cuda() for x in batches(1)[0])
    update = stretto.compile_update(
        mlp().cuda(),
        squared_error,
        optimizer=stretto.AdamW(lr=1e-2, clip_norm=1.0),
        example=example,
        updates_per_launch=SLOTS,
    )
    given = batches(200)
    start = copied(update.state_dict())
    expected, expected_reports = one_by_one(update, given)
    update.load_state_dict(start)
    training = update.train(feed(given))
    reports, saved = [], None
    for report in training:
        reports.append(report)
        if report.number == 50:
            saved = training.state_dict()
    assert reports == expected_reports
    assert_equal_bits(values(update), expected)
    update.load_state_dict(saved)
    list(update.train(given[int(saved["update"]["draws"]) :]))
    assert_equal_bits(values(update), expected)
