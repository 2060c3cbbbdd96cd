#!/usr/bin/env python3
"""Writes a JSON Schema for each kind of a Kubernetes, from the OpenAPI document in its sources.

usage: kubeconform-schemas.py SWAGGER FOLDER
"""

import json
import pathlib
import sys

DEFINITIONS = "definitions.json"


def strict(schema):
    """OpenAPI's words in those of JSON Schema; a field that is not known is a mistake."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    # Fields may have names that are words of a schema.
    fields = {name: strict(field) for name, field in schema.get("properties", {}).items()}
    schema = {key: fields if key == "properties" else strict(value) for key, value in schema.items()}
    if schema.get("format") == "int-or-string":
        return {"oneOf": [{"type": "string"}, {"type": "integer"}]}
    if "$ref" in schema:
        return {"$ref": schema["$ref"].replace("#/", f"{DEFINITIONS}#/")}
    if "properties" in schema and "additionalProperties" not in schema:
        schema["additionalProperties"] = False
    schema.pop("format", None)
    return schema


def main():
    swagger, folder = (pathlib.Path(argument) for argument in sys.argv[1:])
    folder.mkdir(parents=True)
    found = json.loads(swagger.read_text())["definitions"]
    definitions = {name: strict(schema) for name, schema in found.items()}
    # Written as a number or a string.
    definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    (folder / DEFINITIONS).write_text(json.dumps({"definitions": definitions}))
    for name, schema in found.items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            group = kind["group"].split(".")[0]
            suffix = "-".join(part for part in (group, kind["version"]) if part)
            file = folder / f"{kind['kind'].lower()}-{suffix}.json"
            file.write_text(json.dumps({"$ref": f"{DEFINITIONS}#/definitions/{name}"}))


main()
