import asyncio

import pytest

from seatrial.compat.conversation import (
    ImageUrlContentPart,
    InputAudioContentPart,
    TextContentPart,
    concat_messages,
    from_raw_message,
    get_messages,
    message_role,
    messages_to_printable,
    normalize_messages,
    parse_is_truncated,
    parse_response_messages,
)
from seatrial.env.chat_message import UserMessage

USER = {"role": "user", "content": "u"}
ASSISTANT = {"role": "assistant", "content": "a"}


def test_messages_are_made_of_tables_and_text():
    assert normalize_messages("u") == [USER]
    assert isinstance(from_raw_message(USER), UserMessage)
    with pytest.raises(TypeError, match="few_shot: a message is a table with a role"):
        normalize_messages([{"content": "no role"}], field_name="few_shot")


def test_messages_of_one_role_are_found():
    assert get_messages([USER, ASSISTANT], role="assistant") == [ASSISTANT]
    assert get_messages([USER, ASSISTANT]) == concat_messages([[USER], [ASSISTANT]])
    assert (message_role(UserMessage(content="")), message_role(object())) == ("user", None)


def test_pictures_and_sounds_are_words_in_print():
    parts = [
        TextContentPart(text="see"),
        ImageUrlContentPart(image_url={"url": "data:..."}),
        InputAudioContentPart(input_audio={"data": "", "format": "wav"}),
    ]
    assert messages_to_printable([UserMessage(content=parts), USER]) == [
        {"role": "user", "content": "see [image] [audio]"},
        USER,
    ]


def test_an_answer_is_taken_apart():
    answer = {"choices": [{"message": ASSISTANT, "finish_reason": "length"}]}
    assert asyncio.run(parse_response_messages(answer, "chat")) == [ASSISTANT]
    assert asyncio.run(parse_is_truncated(answer)) is True
