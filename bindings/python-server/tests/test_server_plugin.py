"""The fixtures `punctual_server` and `punctual_clock`, here and in separate pytest runs."""

from __future__ import annotations

import pytest
import redis
from punctual_server import BaseServer
from punctual_server.pytest_plugin import Clock

pytest_plugins = ["pytester"]


def test_server(punctual_server: BaseServer) -> None:
    assert punctual_server.clock == "real"
    with redis.Redis(port=punctual_server.port) as client:
        assert client.ping()


def test_clock(punctual_clock: Clock, punctual_server: BaseServer) -> None:
    assert punctual_clock.server is punctual_server
    with redis.Redis(port=punctual_server.port) as client:
        client.set("key", "value", ex=60)
        now = punctual_clock.now()
        assert punctual_clock.advance(59) == now + 59
        assert client.ttl("key") == 1
        punctual_clock.set_time(now + 60)
        assert client.exists("key") == 0
    assert "virtual clock" in repr(punctual_clock)


@pytest.mark.punctual(threads=2, notify_keyspace_events="Ex")
class TestMark:
    def test_mark_of_a_class(self, punctual_server: BaseServer) -> None:
        assert punctual_server.threads == 2

    @pytest.mark.punctual(threads=3)
    def test_mark_of_a_test_wins(self, punctual_server: BaseServer) -> None:
        assert punctual_server.threads == 3
        with redis.Redis(port=punctual_server.port, decode_responses=True) as client:
            events = client.config_get("notify-keyspace-events")
            assert events == {"notify-keyspace-events": "xE"}

    @pytest.mark.punctual(clock="virtual")
    def test_server_alone_has_a_virtual_clock(self, punctual_server: BaseServer) -> None:
        punctual_server.advance(1)


def test_each_test_has_its_own_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import redis, pytest
        seen = []

        @pytest.mark.parametrize("n", range(3))
        def test_empty(punctual_server, n):
            assert not any(server.running for server in seen)
            seen.append(punctual_server)
            with redis.Redis(port=punctual_server.port) as client:
                assert client.dbsize() == 0
                client.set("key", n)

        def test_stopped():
            assert len(set(seen)) == 3 and not any(server.running for server in seen)
        """
    )
    pytester.runpytest("-W", "error").assert_outcomes(passed=4)


def test_options_for_all_tests(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        """
        [pytest]
        punctual_options =
            notify-keyspace-events Ex
            databases 3
            threads 2
            clock virtual
        """
    )
    pytester.makepyfile(
        """
        import redis, pytest

        def config(server):
            with redis.Redis(port=server.port, decode_responses=True) as client:
                return client.config_get("notify-keyspace-events", "databases", "threads")

        def test_ini(punctual_server):
            punctual_server.advance(1)
            assert config(punctual_server) == {
                "notify-keyspace-events": "xE", "databases": "3", "threads": "2"}

        @pytest.mark.punctual(databases=4, clock="real")
        def test_mark_wins(punctual_server):
            assert config(punctual_server)["databases"] == "4"
            assert punctual_server.clock == "real"

        @pytest.mark.punctual(clock="real")
        def test_clock_wins(punctual_server, punctual_clock):
            punctual_clock.advance(1)
        """
    )
    pytester.runpytest("-W", "error").assert_outcomes(passed=3)


def test_clock_requested_by_another_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import redis, pytest

        @pytest.fixture
        def client(punctual_server):
            with redis.Redis(port=punctual_server.port) as client:
                yield client

        @pytest.fixture
        def later(punctual_clock):
            return punctual_clock.advance

        def test_later(client, later):
            client.set("key", "value", ex=10)
            later(10)
            assert client.get("key") is None

        def test_requested_first(request):
            request.getfixturevalue("punctual_clock").advance(1)

        def test_requested_too_late(punctual_server, request):
            request.getfixturevalue("punctual_clock")
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*make punctual_clock an argument of the test*"])


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        ("maxclient=3", "*punctual_server: maxclient: Bad directive*"),
        ("maxclients=None", "*punctual_server: maxclients: NoneType*"),
    ],
)
def test_wrong_options_are_reported(pytester: pytest.Pytester, mark: str, reason: str) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.punctual({mark})
        def test_never(punctual_server): ...
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([reason])


def test_the_mark_is_registered(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.punctual(threads=1)
        def test_nothing(): ...
        """
    )
    pytester.runpytest("--strict-markers").assert_outcomes(passed=1)
    pytester.runpytest("--markers").stdout.fnmatch_lines(["@pytest.mark.punctual(*"])
    shown = pytester.runpytest("--fixtures").stdout
    shown.fnmatch_lines_random(["punctual_server*", "punctual_clock*"])


def test_the_log(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nlog_level = INFO\npunctual_options =\n    logger punctual_server\n")
    pytester.makepyfile(
        """
        import pytest

        def messages(caplog):
            records = caplog.get_records("setup") + caplog.get_records("call")
            return [record.getMessage() for record in records]

        def test_of_all(punctual_server, caplog):
            punctual_server.stop()
            assert "Ready to accept connections tcp" in messages(caplog)

        @pytest.mark.punctual(logger=None)
        def test_of_none(punctual_server, caplog):
            punctual_server.stop()
            assert messages(caplog) == []
        """
    )
    pytester.runpytest("-W", "error").assert_outcomes(passed=2)
