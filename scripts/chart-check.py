#!/usr/bin/env python3
"""Checks what the chart renders.

usage: chart-check.py rules RENDERED            prints every rule of every role, a line each
       chart-check.py objects RENDERED          fails where an object lacks what it must have
       chart-check.py alerts RENDERED           prints the groups of alerts, for promtool
       chart-check.py values                    fails where values.yaml and values.schema.json differ
"""

import json
import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHART = ROOT / "charts/assay"
CONTROLLER = ROOT / "operator/controller/src"
AGENT = ROOT / "operator/agent/src"
CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Namespace",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
problems = []


def need(condition, problem):
    if not condition:
        problems.append(problem)


def load(path):
    objects = [found for found in yaml.safe_load_all(pathlib.Path(path).read_text()) if found]
    return {(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]): o for o in objects}, len(objects)


def title(key):
    return "/".join(part for part in key if part)


def rules(objects):
    for key, role in sorted(objects.items(), key=lambda item: title(item[0])):
        for rule in role.get("rules", []) if key[0].endswith("Role") else []:
            groups = ",".join(group or "core" for group in rule["apiGroups"])
            names = f" named {','.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
            print(f"{title(key)}: {groups} {','.join(rule['resources'])}{names}: {' '.join(rule['verbs'])}")


def check_pod(where, pod, accounts):
    security = pod.get("securityContext", {})
    need(security.get("runAsNonRoot") and security.get("runAsUser"), f"{where} may run as root")
    need(security.get("seccompProfile", {}).get("type") == "RuntimeDefault", f"{where} has no seccomp profile")
    need(not any("hostPath" in volume for volume in pod.get("volumes", [])), f"{where} mounts a path of its node")
    need(pod["serviceAccountName"] in accounts, f"{where} has a ServiceAccount that the chart does not make")
    for container in pod["containers"]:
        own = container.get("securityContext", {})
        need(own.get("readOnlyRootFilesystem") is True, f"{where} can write to its root")
        need(own.get("allowPrivilegeEscalation") is False, f"{where} allows privilege escalation")
        need(own.get("capabilities", {}).get("drop") == ["ALL"], f"{where} keeps capabilities")
        resources = container.get("resources", {})
        need("memory" in resources.get("limits", {}), f"{where} has no memory limit")
        # Whatever it asked for, however little, a trial that needs all CPUs of a small node could never have.
        need("cpu" not in resources.get("requests", {}), f"{where} asks for CPU")


def check_agent(objects):
    """The only thing with privileges is in a namespace where nothing else is but what it needs itself."""
    daemons = [found for key, found in objects.items() if key[0] == "DaemonSet"]
    for found in daemons:
        namespace, pod = found["metadata"]["namespace"], found["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        need(container["securityContext"].get("readOnlyRootFilesystem") is True, "the agent can write to its root")
        need("cpu" not in container["resources"].get("requests", {}), "the agent asks for CPU")
        mounts = container.get("volumeMounts", [])
        need(all(mount.get("readOnly") for mount in mounts), "the agent can write to a folder of its node")
        need("hostNetwork" not in pod and "ports" not in container, "the agent can be reached")
        own = {key[0] for key in objects if key[1] == namespace}
        need(own <= {"DaemonSet", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"}, f"{namespace} has more: {own}")
        need(("ServiceAccount", namespace, pod["serviceAccountName"]) in objects, "the agent has no account of its own")
        labels = found["spec"]["template"]["metadata"]["labels"]
        need(found["spec"]["selector"]["matchLabels"] == labels, "the DaemonSet does not select its pods")
        check_arguments(container["args"], AGENT)
    privileged = json.dumps([found for key, found in objects.items() if key[0] != "DaemonSet"])
    need('"privileged": true' not in privileged, "something else than the agent is privileged")


def check_arguments(arguments, program):
    source = (program / "args.rs").read_text()
    for argument in arguments:
        flag = argument.removeprefix("--").split("=")[0]
        known = f'long = "{flag}"' in source or f"pub {flag.replace('-', '_')}:" in source
        need(known, f"{program.parent.name} has no flag --{flag}")


def check_metrics(what, text):
    """Names of metrics are those that the operator exports."""
    exported = (CONTROLLER / "metrics.rs").read_text()
    for name in sorted(set(re.findall(r"\bassay_([a-z_]+)\b", text))):
        base = re.sub(r"_seconds_(bucket|count|sum)$|_total$", "", name)
        need(f'"{base}"' in exported, f"{what} asks for assay_{name}, which the operator does not export")


def check_selectors(objects, deployment):
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    matches = lambda selector: selector.items() <= labels.items()
    need(matches(deployment["spec"]["selector"]["matchLabels"]), "the Deployment does not select its pods")
    for (kind, _, name), found in objects.items():
        if kind == "Service":
            need(matches(found["spec"]["selector"]), f"Service {name} does not select the operator")
        if kind == "PodDisruptionBudget":
            need(matches(found["spec"]["selector"]["matchLabels"]), f"{kind} {name} does not select the operator")
        if kind == "NetworkPolicy":
            need(found["spec"]["policyTypes"] == ["Ingress", "Egress"], f"{kind} {name} leaves a direction open")
        if kind == "NetworkPolicy" and name.endswith("-bench"):
            need(found["spec"]["egress"] == [], f"{kind} {name} lets trials out")
            peer = found["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
            need(matches(peer), f"{kind} {name} does not let the operator in")
        if kind == "ServiceMonitor":
            service = next(o for key, o in objects.items() if key[0] == "Service")
            wanted = found["spec"]["selector"]["matchLabels"]
            need(wanted.items() <= service["metadata"]["labels"].items(), "the ServiceMonitor does not select the Service")


def check_test(objects):
    experiment = next(o for key, o in objects.items() if key[0] == "TuningExperiment")
    config = next(o for key, o in objects.items() if key[0] == "ConfigMap" and key[2].endswith("-test"))
    file = yaml.safe_load(config["data"]["experiment.yaml"])
    same = file["spec"] == experiment["spec"] and file["metadata"]["name"] == experiment["metadata"]["name"]
    need(same, "the test follows another experiment than it has made")


def check(objects, count):
    need(len(objects) == count, "two objects have the same name")
    accounts = {key[2] for key in objects if key[0] == "ServiceAccount"} | {"default", "given"}
    for key, found in objects.items():
        need((key[1] is None) == (key[0] in CLUSTER_WIDE), f"{title(key)} has a wrong scope")
        need(found["metadata"].get("labels") or key[0] == "CustomResourceDefinition", f"{title(key)} has no labels")
        if "roleRef" in found:
            role = (found["roleRef"]["kind"], key[1], found["roleRef"]["name"])
            need(role in objects, f"{title(key)} binds a role that is not there")
        if key[0] == "CustomResourceDefinition":
            annotations = found["metadata"].pop("annotations", {})
            need(annotations == {"helm.sh/resource-policy": "keep"}, f"an uninstall would remove {title(key)}")
            source = ROOT / f"crds/{found['spec']['group']}_{found['spec']['names']['plural']}.yaml"
            need(found == yaml.safe_load(source.read_text()), f"{title(key)} is not {source.name}: run `make generate`")
        if key[0] == "PrometheusRule":
            check_metrics(title(key), json.dumps(found))
        if key[0] == "Pod":
            check_pod(title(key), found["spec"], accounts)
    deployment = next(o for key, o in objects.items() if key[0] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    check_pod("the Deployment", pod, accounts)
    check_arguments(pod["containers"][0]["args"], CONTROLLER)
    check_agent(objects)
    for probe in ("livenessProbe", "readinessProbe"):
        path = pod["containers"][0][probe]["httpGet"]["path"]
        need(f'"{path}"' in (CONTROLLER / "server.rs").read_text(), f"the operator does not serve {path}")
    check_selectors(objects, deployment)
    check_test(objects)
    dashboard = (CHART / "files/dashboard.json").read_text()
    json.loads(dashboard)
    check_metrics("the dashboard", dashboard)


def check_values():
    schema = json.loads((CHART / "values.schema.json").read_text())
    own = {**schema["properties"]}
    # Helm gives it to charts that are part of another one, with whatever is in it.
    own.pop("global")
    compare("", yaml.safe_load((CHART / "values.yaml").read_text()), {**schema, "properties": own}, schema["definitions"])


def compare(path, value, schema, definitions):
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[1]]
    if schema.get("type") == "object":
        need("additionalProperties" in schema, f"values{path} may have misspelt keys")
    known = schema.get("properties")
    if known is None or schema in definitions.values():
        return
    need(set(value) == set(known), f"values{path} and its schema differ in {sorted(set(value) ^ set(known))}")
    for key in set(value) & set(known):
        compare(f"{path}.{key}", value[key], known[key], definitions)


def main():
    command, *path = sys.argv[1:]
    if command == "values":
        check_values()
    else:
        objects, count = load(path[0])
        if command == "rules":
            rules(objects)
        elif command == "alerts":
            rule = next(o for key, o in objects.items() if key[0] == "PrometheusRule")
            print(yaml.safe_dump(rule["spec"], sort_keys=False))
        else:
            check(objects, count)
    for problem in problems:
        print(f"chart-check: {problem}", file=sys.stderr)
    sys.exit(bool(problems))


main()
