#!/usr/bin/env python3
"""Checks what the chart renders.

usage: chart-check.py rules RENDERED            prints every rule of every role, a line each
       chart-check.py objects RENDERED          fails where an object lacks what it must have
       chart-check.py alerts RENDERED           prints the groups of alerts, for promtool
       chart-check.py dashboard RENDERED        prints what the dashboard asks for as recording rules, for promtool
       chart-check.py values CHART              fails where values.yaml and values.schema.json differ, or that is not strict
       chart-check.py levels CHART              prints a misspelt value for each object among the values
"""

import json
import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONTROLLER = ROOT / "operator/controller/src"
AGENT = ROOT / "operator/agent/src"
# Many times faster, where the system has it.
# The words that objects carry, by their names in the code; and those that only operators may set of an experiment.
NAMES = dict(re.findall(r'const (\w+): &str = "(.*)";', (ROOT / "operator/api/src/names.rs").read_text()))
NIGHT_MARKS = {"NIGHT_ANNOTATION", "TRIGGER_ANNOTATION", "RUN_NOW_ANNOTATION", "VISIT_ANNOTATION", "SWEEP_LABEL"}
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
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
    objects = [found for found in yaml.load_all(pathlib.Path(path).read_text(), LOADER) if found]
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
    need(not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}, f"{where} sees more of its node than it must")
    need(pod["serviceAccountName"] in accounts, f"{where} has a ServiceAccount that the chart does not make")
    for container in pod["containers"] + pod.get("initContainers", []):
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
        writes = {mount["name"] for mount in mounts if not mount.get("readOnly")}
        files = [volume["hostPath"] for volume in pod.get("volumes", []) if volume["name"] in writes]
        one = {"path": "/proc/sys/vm/drop_caches", "type": "File"}
        need(all(file == one for file in files), "the agent can write to a folder of its node")
        own = container["securityContext"]
        trims = any(argument.startswith("--trim=") for argument in container["args"])
        powerless = own.get("allowPrivilegeEscalation") is False and own.get("capabilities") == {"drop": ["ALL"]}
        need(trims or (powerless and not own.get("privileged")), "the agent has privileges without need")
        need(trims or "hostPID" not in pod, "the agent sees processes without need")
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
    fields = re.findall(r'#\[arg\(long(?: = "(.*?)")?[^]]*\)\]\s+pub (\w+):', (program / "args.rs").read_text())
    known = {name or field.replace("_", "-") for name, field in fields}
    for argument in arguments:
        flag = argument.removeprefix("--").split("=")[0]
        need(flag in known, f"{program.parent.name} has no flag --{flag}")


def exported():
    """Labels of each metric of the operator: those that users are told of, which a metrics.rs has to know, too."""
    source = "".join(path.read_text() for path in sorted(CONTROLLER.rglob("metrics.rs")))
    metrics = {}
    for line in (ROOT / "docs/operations.md").read_text().splitlines():
        if line.startswith("| `assay_"):
            _, names, _, labels, *_ = line.split("|")
            labels = re.findall(r"`(\w+)`", labels)
            for label in labels:
                known = re.search(rf'\("{label}", |^    {label}: ', source, re.M)
                need(known, f"operations.md tells of the label {label}, which the operator does not export")
            for name in re.findall(r"`assay_(\w+)`", names):
                base = re.sub(r"_seconds$|_total$", "", name)
                need(f'"{base}"' in source, f"operations.md tells of assay_{name}, which the operator does not export")
                metrics[name] = set(labels)
    return metrics


def check_query(where, query, metrics):
    """It asks for metrics and labels that there are."""
    query = re.sub(r'"[^"]*"', "", query)
    labels = set()
    for name, matchers in re.findall(r"\bassay_(\w+)(?:{(.*?)})?", query):
        base = re.sub(r"_(bucket|count|sum)$", "", name)
        need(base in metrics, f"{where} asks for assay_{name}, which the operator does not export")
        # Prometheus itself says where it found them.
        own = metrics.get(base, set()) | {"job", "namespace"} | ({"le"} if name.endswith("_bucket") else set())
        wrong = set(re.findall(r"\w+", matchers)) - own if base in metrics else set()
        need(not wrong, f"{where} asks assay_{name} for labels that it does not have: {wrong}")
        labels |= own
    for grouped in re.findall(r"\b(?:by|without|on|ignoring|group_left|group_right) *\((.*?)\)", query):
        wrong = set(re.findall(r"\w+", grouped)) - labels
        need(not wrong, f"{where} groups by labels that there are not: {wrong}")


def dashboard_queries(objects):
    """What the dashboard asks for, with a value for each of Grafana's variables."""
    text = next((o["data"]["assay.json"] for key, o in objects.items() if key[2].endswith("-dashboard")), None)
    if text is None:
        return {}
    dashboard = json.loads(text)
    variables = dashboard["templating"]["list"]
    queries = {variable["name"]: variable["query"] for variable in variables if variable["type"] == "query"}
    # Grafana's own function, of series and one of their labels.
    queries = {name: re.sub(r"^label_values\((.*), (\w+)\)$", r"group by (\2) (\1)", q) for name, q in queries.items()}
    for panel in dashboard["panels"]:
        queries |= {f"panel{panel['id']}_{target['refId']}": target["expr"] for target in panel["targets"]}
    known = {variable["name"] for variable in variables}
    for where, query in queries.items():
        query = re.sub(r"\$__(rate_interval|range)\b", "5m", query)
        for name in set(re.findall(r"\$(\w+)", query)):
            need(name in known, f"{where} of the dashboard uses the variable {name}, which there is not")
        queries[where] = re.sub(r"\$\w+", ".*", query)
    return queries


def check_selectors(objects, deployment):
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    matches = lambda selector: selector.items() <= labels.items()
    need(matches(deployment["spec"]["selector"]["matchLabels"]), "the Deployment does not select its pods")
    # What keeps one replica alive when a node or its drain takes another.
    need(deployment["spec"]["replicas"] > 1, "the operator has a single replica")
    spread = deployment["spec"]["template"]["spec"].get("topologySpreadConstraints", [])
    hosts = [s for s in spread if s["topologyKey"] == "kubernetes.io/hostname" and matches(s["labelSelector"]["matchLabels"])]
    need(hosts, "replicas of the operator are not spread over nodes")
    need(any(key[0] == "PodDisruptionBudget" for key in objects), "the operator has no PodDisruptionBudget")
    pods = (CONTROLLER / "pod.rs").read_text()
    protocol = (ROOT / "bench-image/protocol/src/invocation/in_pod.rs").read_text()
    for (kind, _, name), found in objects.items():
        if kind == "Service":
            need(matches(found["spec"]["selector"]), f"Service {name} does not select the operator")
        if kind == "PodDisruptionBudget":
            need(matches(found["spec"]["selector"]["matchLabels"]), f"{kind} {name} does not select the operator")
            need(found["spec"].get("maxUnavailable") == 1, f"{kind} {name} does not let replicas go one by one")
        if kind == "NetworkPolicy":
            need(found["spec"]["policyTypes"] == ["Ingress", "Egress"], f"{kind} {name} leaves a direction open")
            peers = [peer for rule in found["spec"]["ingress"] for peer in rule.get("from", [{}])]
            anyone = [peer for peer in peers if not peer.get("namespaceSelector")]
            need(not anyone, f"{kind} {name} lets pods of all namespaces read metrics")
        if kind == "NetworkPolicy" and name.endswith("-bench"):
            need(found["spec"]["egress"] == [], f"{kind} {name} lets trials out")
            peer = found["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
            need(matches(peer), f"{kind} {name} does not let the operator in")
            port = found["spec"]["ingress"][0]["ports"][0]["port"]
            need(f"METRICS_PORT: u16 = {port};" in protocol, f"{kind} {name} lets nobody in at the port of trials")
        if kind == "ServiceMonitor":
            service = next(o for key, o in objects.items() if key[0] == "Service")
            wanted = found["spec"]["selector"]["matchLabels"]
            need(wanted.items() <= service["metadata"]["labels"].items(), "the ServiceMonitor does not select the Service")
        if kind == "PodMonitor":
            trials = {NAMES["ROLE_LABEL"]: NAMES["ROLE_TRIAL"]}
            need(found["spec"]["selector"]["matchLabels"] == trials, "the PodMonitor does not select trials")
            port = found["spec"]["podMetricsEndpoints"][0]["port"]
            need(f'"name": "{port}", "containerPort": in_pod::METRICS_PORT' in pods, f"trials have no port {port}")


def check_server(objects, container):
    """Kubelets and Prometheus ask the operator in the way in which it answers."""
    flags = {argument.split("=")[0] for argument in container["args"]}
    tls, tokens = "--listen-tls" in flags, "--authorize-metrics" in flags
    for probe in ("livenessProbe", "readinessProbe"):
        page = container[probe]["httpGet"]
        need(f'"{page["path"]}"' in (CONTROLLER / "server.rs").read_text(), f"the operator does not serve {page['path']}")
        need(page.get("scheme", "HTTP") == ("HTTPS" if tls else "HTTP"), f"the {probe} does not ask as the operator answers")
    for (kind, namespace, _), found in objects.items():
        if kind == "ServiceMonitor":
            (endpoint,) = found["spec"]["endpoints"]
            service = next(key[2] for key in objects if key[0] == "Service")
            trusted = endpoint.get("tlsConfig", {}).get("serverName")
            need((endpoint.get("scheme") == "https") == tls, "the ServiceMonitor does not ask as the operator answers")
            need(trusted == (f"{service}.{namespace}.svc" if tls else None), "the ServiceMonitor trusts another name than the Service's")
            need(("bearerTokenFile" in endpoint) == tokens, "Prometheus sends no token, or one that nobody wants")


def check_policies(objects):
    """What the API server is to refuse, it refuses: also where it can't tell, and in every namespace."""
    bindings = {o["spec"]["policyName"]: o["spec"] for key, o in objects.items() if key[0].endswith("PolicyBinding")}
    fences = []
    for (kind, _, name), found in objects.items():
        if kind != "ValidatingAdmissionPolicy":
            continue
        spec = found["spec"]
        need(spec["failurePolicy"] == "Fail", f"{name} lets through what it can't judge")
        need(name in bindings, f"nothing binds {name}")
        need(bindings.get(name, {}).get("validationActions", ["Deny"]) == ["Deny"], f"{name} refuses nothing")
        rules = spec["matchConstraints"]["resourceRules"]
        for rule in rules if any("tuningexperiments" in rule["resources"] for rule in rules) else []:
            need(rule["operations"] == ["CREATE", "UPDATE"], f"{name} can be got around by a change")
        if "-nights" in name:
            text = json.dumps(spec["validations"])
            marks = [value for key, value in NAMES.items() if key in NIGHT_MARKS]
            need(len(marks) == len(NIGHT_MARKS), "the words of nights are not in names.rs")
            for mark in marks:
                need(text.count(f"'{mark}'") == 3, f"anybody may set {mark} of an experiment")
        if "-fence-" in name:
            fences.append(spec["matchConstraints"].get("namespaceSelector", {}).get("matchExpressions", []))
            rest = [validation for validation in spec["validations"] if validation["expression"] != "true"]
            need(all(rule.get("message") for rule in rest), f"{name} does not say what is allowed")
    named = {value for fence in fences for one in fence if one["operator"] == "In" for value in one["values"]}
    others = [set(one["values"]) for fence in fences for one in fence if one["operator"] == "NotIn"]
    need(all(those == named for those in others), "the fence of all other namespaces leaves some out")
    need(len(fences) < 2 or all(fences), "a namespace has two fences")


def check_test(objects):
    experiment = next(o for key, o in objects.items() if key[0] == "TuningExperiment")
    config = next(o for key, o in objects.items() if key[0] == "ConfigMap" and key[2].endswith("-test"))
    file = yaml.safe_load(config["data"]["experiment.yaml"])
    same = file["spec"] == experiment["spec"] and file["metadata"]["name"] == experiment["metadata"]["name"]
    need(same, "the test follows another experiment than it has made")


def check(objects, count):
    need(len(objects) == count, "two objects have the same name")
    metrics = exported()
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
            need(found == yaml.load(source.read_text(), LOADER), f"{title(key)} is not {source.name}: run `make generate`")
        if key[0] == "PrometheusRule":
            for rule in found["spec"]["groups"][0]["rules"]:
                check_query(rule["alert"], rule["expr"], metrics)
        if key[0] == "Pod":
            check_pod(title(key), found["spec"], accounts)
    deployment = next(o for key, o in objects.items() if key[0] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    check_pod("the Deployment", pod, accounts)
    check_arguments(pod["containers"][0]["args"], CONTROLLER)
    check_agent(objects)
    check_server(objects, pod["containers"][0])
    check_selectors(objects, deployment)
    check_policies(objects)
    check_test(objects)
    for where, query in dashboard_queries(objects).items():
        check_query(f"{where} of the dashboard", query, metrics)


def check_values(chart):
    schema = json.loads((chart / "values.schema.json").read_text())
    # Helm gives it to charts that are part of another one, with whatever is in it.
    schema["properties"].pop("global")
    strict("", schema)
    compare("", yaml.load((chart / "values.yaml").read_text(), LOADER), schema)


def strict(path, schema):
    """Each object refuses what it does not know, or says what all of its values are."""
    if isinstance(schema, list):
        schema = dict(enumerate(schema))
    if isinstance(schema, dict):
        if schema.get("type") == "object" or "additionalProperties" in schema:
            others = schema.get("additionalProperties", True)
            closed = others is False if "properties" in schema else others and others is not True
            need(closed, f"the schema of values allows misspelt keys in {path or 'all of them'}")
        for key, part in schema.items():
            strict(f"{path}.{key}", part)


def compare(path, value, schema):
    """Each value has a default, but for what the schema defines once for several of them."""
    known = schema.get("properties")
    if known is None:
        return
    need(set(value) == set(known), f"values{path} and its schema differ in {sorted(set(value) ^ set(known))}")
    for key in set(value) & set(known):
        compare(f"{path}.{key}", value[key], known[key])


def levels(path, schema, definitions):
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[1]]
    if schema.get("additionalProperties") is False:
        yield f"{path}misspelt"
    for key, part in schema.get("properties", {}).items():
        yield from levels(f"{path}{key}.", part, definitions)
    if "items" in schema:
        yield from levels(f"{path.removesuffix('.')}[0].", schema["items"], definitions)


def main():
    command, path = sys.argv[1], pathlib.Path(sys.argv[2])
    if command == "values":
        check_values(path)
    elif command == "levels":
        schema = json.loads((path / "values.schema.json").read_text())
        print("\n".join(levels("", schema, schema["definitions"])))
    else:
        objects, count = load(path)
        if command == "rules":
            rules(objects)
        elif command == "alerts":
            rule = next(o for key, o in objects.items() if key[0] == "PrometheusRule")
            print(yaml.safe_dump(rule["spec"], sort_keys=False))
        elif command == "dashboard":
            queries = dashboard_queries(objects).items()
            records = [{"record": f"dashboard:{where}", "expr": query} for where, query in queries]
            print(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}))
        else:
            check(objects, count)
    for problem in problems:
        print(f"chart-check: {problem}", file=sys.stderr)
    sys.exit(bool(problems))


main()
