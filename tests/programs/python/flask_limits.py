"""Flask-Limiter: limits of a route, shared limits, headers, fixed, moving and sliding windows,
exemptions, reset.

Packages: Flask-Limiter[redis]
"""

from flask import Flask
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from verdict import URL, equal, report, step, until


def program():
    for strategy in ("fixed-window", "moving-window", "sliding-window-counter"):
        step(strategy)
        app = Flask(__name__)
        limiter = Limiter(
            get_remote_address,
            app=app,
            storage_uri=URL,
            strategy=strategy,
            headers_enabled=True,
            key_prefix=strategy,
            default_limits=["1000/day"],
        )

        @app.get("/two")
        @limiter.limit("2/minute")
        def two():
            return "fine"

        @app.get("/second")
        @limiter.limit("1/second")
        def second():
            return "fine"

        @app.get("/free")
        @limiter.exempt
        def free():
            return "fine"

        shared = limiter.shared_limit("2/minute", scope="both")
        app.get("/one")(shared(lambda: "one"))
        app.add_url_rule("/other", "other", shared(lambda: "other"))
        browser = app.test_client()
        replies = [browser.get("/two") for _ in range(3)]
        equal([reply.status_code for reply in replies], [200, 200, 429])
        equal(replies[0].headers["X-RateLimit-Remaining"], "1")
        equal(
            [browser.get(path).status_code for path in ("/one", "/other", "/one")], [200, 200, 429]
        )
        equal({browser.get("/free").status_code for _ in range(5)}, {200})
        until(lambda browser=browser: browser.get("/second").status_code == 429)
        until(lambda browser=browser: browser.get("/second").status_code == 200)
        limiter.reset()
        equal(browser.get("/two").status_code, 200)


if __name__ == "__main__":
    report(program)
