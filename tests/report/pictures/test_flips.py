from seatrial.report.pictures.flips import FlipRow, flips_picture


def test_wins_and_losses_are_told_apart_by_more_than_colour():
    drawn = flips_picture("f", "old", "new", [FlipRow("won", 0.0, 1.0, "#w"), FlipRow("lost", 1.0, 0.5, "#l")])
    won, lost = (drawn.split(f'class="{kind}"')[1].split("</g>")[0] for kind in ("won", "lost"))
    middle = float(won.split('x1="')[1].split('"')[0])
    assert float(won.split('x2="')[1].split('"')[0]) > middle > float(lost.split('x2="')[1].split('"')[0])
    assert "← old better" in drawn
    assert "new better →" in drawn
