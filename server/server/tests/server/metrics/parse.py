"""Reads the metrics in both formats with the parsers of prometheus_client, and compares them."""

import re
import sys
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

folder = Path(sys.argv[1])
texts = {name: (folder / name).read_text() for name in ("open", "plain")}
# The OpenMetrics parser checks suffixes, types, duplicates, the order of buckets and the end.
families = {"open": list(open_metrics(texts["open"])), "plain": list(prometheus(texts["plain"]))}
counts = {name: len(found) for name, found in families.items()}
assert counts["open"] == counts["plain"] > 140, counts


def samples(text):
    return set(re.findall(r"^([a-z_0-9]+)[ {]", text, re.M))


# The names are the same in both formats: scrapers choose the format.
unequal = samples(texts["open"]) ^ samples(texts["plain"])
assert not unequal, unequal

by_name = {family.name: family for family in families["open"]}
assert by_name["redis_commands"].type == "counter"
assert by_name["redis_db_keys"].type == "gauge"
late = by_name["punctual_lateness_seconds"]
assert late.type == "histogram"
buckets = [s for s in late.samples if s.name.endswith("_bucket")]
assert [s.value for s in buckets] == sorted(s.value for s in buckets)
assert buckets[-1].labels == {"le": "+Inf"} and buckets[-1].value == 2, buckets[-1]
# Every family has its help text.
for name, found in families.items():
    bare = [f.name for f in found if not f.documentation]
    assert not bare, (name, bare)
