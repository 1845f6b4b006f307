"""News: in order, none lost with an answer, none twice once they were seen."""

import asyncio

from seatrial.jobs.ray.outbox import Outbox
from seatrial.jobs.ray.wire import PIECE_BYTES, Happened, TrialEnded, read_news
from seatrial.trial.events import Notice


def happened(text: str) -> Happened:
    return Happened(lease="1.add", notice=Notice(text))


def texts(batch: list[tuple[bytes, bytes]]) -> list[str]:
    return [news.notice.text for data, _ in batch if isinstance(news := read_news(data), Happened) and news.notice]


def test_news_are_given_again_until_they_were_seen():
    async def run():
        box = Outbox()
        box.post(happened("one"))
        box.post(happened("two"))
        lost, first = await box.collect(0, 10)
        seen, second = await box.collect(0, 10)
        box.post(happened("three"))
        _, third = await box.collect(seen, 10)
        return lost, texts(first), seen, texts(second), texts(third)

    assert asyncio.run(run()) == (2, ["one", "two"], 2, ["one", "two"], ["three"])


def test_who_asks_too_early_gets_the_next_at_once():
    async def run():
        box = Outbox()
        asking = asyncio.ensure_future(box.collect(0, 60))
        await asyncio.sleep(0)
        box.post(happened("at last"))
        return texts((await asking)[1])

    assert asyncio.run(run()) == ["at last"]


def test_what_is_only_shown_waits_for_what_matters():
    async def run():
        box = Outbox()
        asking = asyncio.ensure_future(box.collect(0, 60))
        box.mention(happened("starts"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        early = asking.done()
        box.post(happened("ends"))
        return early, texts((await asking)[1])

    assert asyncio.run(run()) == (False, ["starts", "ends"])


def test_what_is_only_shown_is_not_kept_for_long():
    async def run():
        box = Outbox()
        box.mention(happened("starts"))
        seen, batch = await box.collect(0, 60)
        return texts(batch), await box.collect(seen, 0.001)

    assert asyncio.run(run()) == (["starts"], (1, []))


def test_after_a_while_without_news_there_are_none():
    assert asyncio.run(Outbox().collect(0, 0.001)) == (0, [])


def test_one_message_holds_no_more_than_it_may():
    async def run():
        box = Outbox()
        for number in range(10):
            box.post(TrialEnded(lease=f"{number}.add"), bytes(PIECE_BYTES // 4))
        seen = 0
        sizes: list[int] = []
        while len(sizes) < 10 and sum(sizes) < 10:
            seen, batch = await box.collect(seen, 10)
            assert sum(len(data) + len(archive) for data, archive in batch) <= PIECE_BYTES
            sizes.append(len(batch))
        return sizes

    assert asyncio.run(run()) == [3, 3, 3, 1]
