"""Decode requests of OTLP/HTTP in JSON with the real messages of opentelemetry-proto: `python otlp_messages.py FOLDER`.

Runs in a venv that has these messages and nothing of ours. Prints one JSON object per span. As the specification says, trace
and span ids are hex in JSON, where plain protobuf JSON has base64; everything else is decoded by protobuf itself, which refuses
unknown fields and wrong types.
"""

import base64
import json
import sys
from pathlib import Path

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def with_base64_ids(value):
    if isinstance(value, list):
        return [with_base64_ids(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: with_base64_ids(each) for name, each in value.items()}
    for name, size in IDS.items():
        if name in found:
            raw = bytes.fromhex(found[name])
            assert len(raw) == size, f"{name} has {len(raw)} bytes"
            found[name] = base64.b64encode(raw).decode()
    return found


def main() -> None:
    for path in sorted(Path(sys.argv[1]).glob("*.json")):
        request = Parse(json.dumps(with_base64_ids(json.loads(path.read_text()))), ExportTraceServiceRequest())
        again = ExportTraceServiceRequest.FromString(request.SerializeToString())
        assert again == request
        for resource in again.resource_spans:
            service = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
            for scoped in resource.scope_spans:
                for span in scoped.spans:
                    assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
                    about = {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
                    plain = {name: value for name, value in about.items() if isinstance(value, str | int | float)}
                    told = {"service": service, "id": span.span_id.hex(), "parent": span.parent_span_id.hex(), "name": span.name}
                    sys.stdout.write(json.dumps({**told, "trace": span.trace_id.hex(), "about": plain}) + "\n")


if __name__ == "__main__":
    main()
