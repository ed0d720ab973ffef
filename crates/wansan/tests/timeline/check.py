"""Reads an exported timeline as Perfetto's own schema has it, and compares it with the records that it was made of.

Usage: check.py TIMELINE CELL, the folder with the cell's records. Prints what was compared, as JSON.
"""

import json
import sys
from collections import Counter, defaultdict

import duckdb
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def slices_and_counters(trace):
    """Slices as (name, from, to) and values of counters by their names, by the rules of Perfetto's track events."""
    events = schema.TrackEvent
    names, tracks = {}, {}
    open_slices = defaultdict(list)
    slices, values = [], defaultdict(list)
    for packet in trace.packet:
        if not packet.HasField("trusted_packet_sequence_id"):
            raise SystemExit("a packet without a sequence")
        if packet.sequence_flags & schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            names.clear()
        names.update((it.iid, it.name) for it in packet.interned_data.event_names)
        if packet.HasField("track_descriptor"):
            of = packet.track_descriptor
            if of.HasField("parent_uuid") and of.parent_uuid not in tracks:
                raise SystemExit(f"track {of.uuid} comes before its parent")
            tracks[of.uuid] = of
        if not packet.HasField("track_event"):
            continue
        event, at = packet.track_event, packet.timestamp
        track = tracks[event.track_uuid]
        if event.type == events.TYPE_SLICE_BEGIN:
            inside = open_slices[track.uuid]
            if inside and at < inside[-1][1]:
                raise SystemExit(f"a slice at {at} begins before the one around it")
            inside.append((event.name or names[event.name_iid], at))
        elif event.type == events.TYPE_SLICE_END:
            name, began = open_slices[track.uuid].pop()
            slices.append((name, began, at))
        elif event.type == events.TYPE_COUNTER:
            if not track.HasField("counter"):
                raise SystemExit(f"{track.name} is no counter")
            values[track.name].append(event.counter_value)
    if any(open_slices.values()):
        raise SystemExit("slices that do not end")
    return slices, values


def refuse_unknown(message):
    """Ends where a message, or one in it, has a field that Perfetto does not know."""
    if len(UnknownFieldSet(message)) > 0:
        raise SystemExit(f"unknown fields in {type(message).__name__}")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                refuse_unknown(inner)


def recorded(cell):
    """The same of the records: I/Os in layers, and the congestion windows."""
    rows = duckdb.sql(
        f"select session, task, layer, direction, time_ns from '{cell}/io.parquet' order by time_ns, direction"
    ).fetchall()
    entered, spans = {}, []
    for session, task, layer, direction, at in rows:
        key = (session, task, layer)
        if direction == "enter":
            entered[key] = at
        elif key in entered:
            spans.append((layer, entered.pop(key), at))
    windows = duckdb.sql(f"select cwnd_packets from '{cell}/tcp.parquet'").fetchall()
    return spans, [window for (window,) in windows]


def main():
    timeline, cell = sys.argv[1:]
    trace = schema.Trace()
    with open(timeline, "rb") as file:
        trace.ParseFromString(file.read())
    refuse_unknown(trace)
    slices, values = slices_and_counters(trace)
    spans, windows = recorded(cell)
    # The outermost slice is named by its layer and tag.
    seen = Counter((name.split()[0], began, ended) for name, began, ended in slices)
    # What PDUs and packets tell of further layers is no row of its own.
    layers = {layer for layer, _, _ in spans}
    seen = Counter({slice: count for slice, count in seen.items() if slice[0] in layers})
    missing, extra = Counter(spans) - seen, seen - Counter(spans)
    if missing or extra:
        raise SystemExit(f"missing: {list(missing)[:3]}, not recorded: {list(extra)[:3]}")
    if sorted(values["cwnd"]) != sorted(windows):
        raise SystemExit("congestion windows differ")
    print(json.dumps({"slices": len(slices), "windows": len(windows)}))


main()
