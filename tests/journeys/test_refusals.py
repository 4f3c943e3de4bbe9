"""What a server refused once is not tried again, also after a restart."""

from pathlib import Path

from tests.journeys.command import Home
from tests.model_server import ModelServer, failing, says


def test_a_server_without_tools_and_without_schemas_refuses_each_once(tmp_path: Path, server: ModelServer) -> None:
    home = Home(tmp_path / "home")
    home.configure(server.base)
    server.script(
        failing(400, {"error": {"message": "this model does not support tools"}}),
        failing(400, {"error": {"message": "response_format of type json_schema is not available"}}),
        says('{"reply":"Hello."}'),
        says('{"reply":"Hello again."}'),
        says('{"reply":"And again."}'),
    )
    assert home.run("-m", "hi").out == "Hello.\n"
    assert [("tools" in asked.json, "response_format" in asked.json) for asked in server.asked] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    for answer in ("Hello again.", "And again."):
        ended = home.run("-m", "hi")
        assert (ended.out, ended.err) == (f"{answer}\n", "")
        assert not {"tools", "response_format"} & server.asked[-1].json.keys()
    assert len(server.asked) == 5
