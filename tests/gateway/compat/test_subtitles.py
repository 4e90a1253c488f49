from shoal.gateway.compat.subtitles import srt, vtt

SEGMENTS = [
    {"start_s": 0.0, "end_s": 1.5, "text": " Hello"},
    {"start_s": 59.9996, "end_s": 3661.25, "text": " a --> b\n\nc "},
]


def test_subrip() -> None:
    assert srt(SEGMENTS) == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello\n\n2\n00:01:00,000 --> 01:01:01,250\na -> b\nc\n"
    )
    assert srt([]) == ""


def test_webvtt() -> None:
    assert vtt(SEGMENTS[:1]) == "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello\n"
    assert vtt([]) == "WEBVTT\n\n"
