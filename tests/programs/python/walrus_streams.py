"""walrus: streams, consumer groups, time series, and its containers.

Packages: walrus
"""

import datetime

from verdict import HOST, PORT, equal, report, step
from walrus import Database

db = Database(host=HOST, port=PORT)


def program():
    step("streams")
    stream = db.Stream("events")
    first, second = stream.add({"a": "1"}), stream.add({"a": "2"})
    equal(len(stream), 2)
    equal([fields for _, fields in stream[first:]], [{b"a": b"1"}, {b"a": b"2"}])
    equal(stream.read(last_id=first), [(second, {b"a": b"2"})])
    del stream[first]
    equal(len(stream), 1)
    step("consumer groups")
    group = db.consumer_group("group", ["x", "y"])
    group.create()
    group.set_id("$")
    db.Stream("x").add({"n": "1"})
    db.Stream("y").add({"n": "2"})
    read = dict(group.read())
    equal(
        {name: [fields for _, fields in found] for name, found in read.items()},
        {b"x": [{b"n": b"1"}], b"y": [{b"n": b"2"}]},
    )
    equal(len(group.x.pending()), 1)
    equal(group.x.ack(read[b"x"][0][0]), 1)
    equal(len(group.x.pending()), 0)
    step("claims")
    other = group.consumer("other")
    equal(other.y.claim(read[b"y"][0][0]), [(read[b"y"][0][0], {b"n": b"2"})])
    equal(other.y.pending()[0]["consumer"], b"other")
    step("time series")
    series = db.time_series("series", ["t"])
    series.create()
    days = [datetime.datetime(2026, 1, day) for day in (1, 2, 3)]
    for day in days:
        series.t.add({"day": day.day}, id=day)
    equal([message.timestamp for message in series.t], days)
    equal([message.data["day"] for message in series.t[days[1] :]], ["2", "3"])
    step("containers")
    db.Hash("h").update(a=1)
    equal(db.Hash("h")["a"], b"1")
    db.ZSet("z").add({"m": 1})
    equal(db.ZSet("z").score("m"), 1.0)


report(program)
