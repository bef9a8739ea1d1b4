"""What clients type into kubectl day by day, as data: manifests, and acts of commands that need no pod to run.

Nothing here waits for a scheduler or a kubelet: what is compared is the API server's and kubectl's alone. On both
servers the namespace is new.
"""

FILES = {
    "nodes.yaml": """\
apiVersion: v1
kind: Node
metadata: {name: big, labels: {zone: a, disk: ssd}}
spec: {taints: [{key: team, value: ml, effect: NoSchedule}]}
status:
  capacity: {cpu: "8", memory: 16Gi, pods: "110", example.com/gpu: "2"}
  allocatable: {cpu: "8", memory: 16Gi, pods: "110", example.com/gpu: "2"}
---
apiVersion: v1
kind: Node
metadata: {name: small, labels: {zone: b}}
spec: {unschedulable: true}
status:
  capacity: {cpu: "2", memory: 4Gi, pods: "110"}
  allocatable: {cpu: "2", memory: 4Gi, pods: "110"}
""",
    "pod.yaml": """\
apiVersion: v1
kind: Pod
metadata:
  name: cart
  labels: {app: cart, tier: back}
  annotations: {owner: shop@example.com}
spec:
  schedulerName: nobody
  automountServiceAccountToken: false
  nodeSelector: {zone: a}
  tolerations: [{key: team, operator: Equal, value: ml, effect: NoSchedule}]
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 5
        podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: cart}}}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: cart}}}
  containers:
  - name: main
    image: registry.example/cart:1
    env: [{name: MODE, value: fast}]
    ports: [{containerPort: 8080, name: http}]
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
""",
    "more.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: gated, labels: {app: batch}}
spec:
  schedulerName: nobody
  automountServiceAccountToken: false
  schedulingGates: [{name: example.com/quota}]
  containers: [{name: main, image: "registry.example/batch:1"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: cart}}
data: {colour: blue, size: "3"}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: cart}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: cart}}}
""",
    "storage.yaml": """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: habits-slow}
provisioner: example.com/tape
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: orders}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: habits-slow
  resources: {requests: {storage: 5Gi}}
""",
    "typed.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: typed}
spec: {containers: [{name: main, image: 5}]}
""",
    "misspelt.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: misspelt}
spec: {hostNetwrk: true, containers: [{name: main, image: "a:1", comand: [x]}]}
""",
    "broken.yaml": """\
apiVersion: v1
kind: Pod
metadata: {name: broken}
spec:
  restartPolicy: Sometimes
  containers:
  - {name: Main, image: "", resources: {requests: {cpu: "2"}, limits: {cpu: "1"}}}
""",
    "monitor.yaml": """\
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: cart}
spec: {}
""",
    "settings2.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: green}
""",
    "grow.json": '[{"op": "replace", "path": "/metadata/labels/tier", "value": "front"}]',
}

# (title, command lines after the word kubectl).
ACTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "What is there",
        (
            "version",
            "get --raw /readyz",
            "get --raw /version/nothing",
            "api-resources --api-group=scheduling.k8s.io",
            "api-resources --api-group=policy",
            "api-resources --api-group=rbac.authorization.k8s.io",
            "api-resources --api-group=coordination.k8s.io -o name",
            "get priorityclasses system-cluster-critical system-node-critical",
            "get namespaces default kube-system",
            "get pods",
            "get all",
            "get nodes",
            "get events",
        ),
    ),
    (
        "Created from files",
        (
            "create -f nodes.yaml",
            "apply -f pod.yaml",
            "apply -f more.yaml --dry-run=client",
            "apply -f more.yaml --dry-run=server",
            "apply -f more.yaml",
            "apply -f storage.yaml",
            "apply -f pod.yaml -f more.yaml",
            "diff -f settings2.yaml",
            "get -f more.yaml",
        ),
    ),
    (
        "Looked at",
        (
            "get pods --show-labels",
            "get pods -L app,tier",
            "get pods -o wide",
            "get pod cart -o yaml",
            "get pod cart -o name",
            "get pod cart -o jsonpath={.spec.tolerations[*].key}",
            "get pods -o jsonpath='{range .items[*]}{.metadata.name}={.spec.schedulerName};{end}'",
            "get pods -o jsonpath-as-json={.items[*].metadata.name}",
            "get pods -o custom-columns=NAME:.metadata.name,GATES:.spec.schedulingGates[*].name,QOS:.status.qosClass",
            "get pods -o custom-columns=NAME:.metadata.name --no-headers",
            "get pods -o go-template='{{range .items}}{{.metadata.name}} {{.status.phase}}{{\"\\n\"}}{{end}}'",
            "get pods -l app=cart",
            "get pods -l 'app!=cart'",
            "get pods -l 'app in (cart,batch),tier'",
            "get pods -l 'tier notin (front)' -o name",
            "get pods -l '!tier' -o name",
            "get pods --field-selector status.phase=Running",
            "get pods --field-selector spec.schedulerName=nobody,metadata.name!=cart -o name",
            "get pods --field-selector spec.hostname=x",
            "get pods --sort-by=.metadata.labels.app -o name",
            "get pods --sort-by='{.metadata.name}' -A --field-selector spec.schedulerName=nobody",
            "get pods,configmaps,pdb -o name",
            "get pod/cart configmap/settings -o name",
            "get pods --chunk-size=1 -o name",
            "get pods --watch --request-timeout=1s -o name",
            "get pods --output-watch-events --watch --request-timeout=1s",
            "get configmap settings -o jsonpath={.data.colour}",
            "get configmaps settings",
            "get pvc,sc",
            "get pvc orders -o jsonpath={.status.phase}",
            "get nodes -L zone,disk",
            "get nodes -l zone=a -o wide",
            "get node big -o jsonpath='{.status.allocatable}'",
            "get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].effect",
            "get serviceaccounts default -o name",
            "get pods -n nowhere",
            "get pod nobody --ignore-not-found",
            "get nonsense",
            "get pods -o nonsense",
        ),
    ),
    (
        "Described and explained",
        (
            "describe pod cart",
            "describe pod gated",
            "describe node small",
            "describe configmap settings",
            "describe storageclass habits-slow",
            "describe pod nobody",
            "explain pod.spec.nonsense",
            "explain nonsense",
            "explain pod --api-version=v7",
        ),
    ),
    (
        "Changed",
        (
            "label pod cart tier=middle",
            "label pod cart tier=middle --overwrite",
            "label pods -l app=cart seen=yes",
            "label pod cart seen-",
            "label pod cart 'bad key=x'",
            "label pod cart key='not a value'",
            "annotate pod cart owner=web@example.com --overwrite",
            "annotate pod cart owner-",
            "annotate pod cart --list",
            "patch pod cart --type=json --patch-file grow.json",
            'patch pod cart --type=merge -p \'{"metadata":{"labels":{"tier":null}}}\'',
            'patch pod cart -p \'{"spec":{"containers":[{"name":"main","image":"registry.example/cart:2"}]}}\'',
            'patch pod cart -p \'{"spec":{"nodeSelector":{"zone":"b"}}}\'',
            'patch pod cart -p \'{"spec":{"containers":[{"name":"main","image":5}]}}\'',
            'patch pod cart --type=json -p \'[{"op":"test","path":"/kind","value":"Node"}]\'',
            "patch pod cart --type=merge -p 'nonsense'",
            "get pod cart --show-labels -o wide",
            "set image pod/cart main=registry.example/cart:3",
            "set image pod/cart side=registry.example/cart:3",
            "set env pod/cart --list",
            "apply -f settings2.yaml",
            "get configmap settings -o jsonpath={.data}",
            "replace -f settings2.yaml",
            "apply --server-side -f settings2.yaml",
            "apply --server-side --field-manager=other -f settings2.yaml",
            "apply --server-side --force-conflicts -f settings2.yaml",
            "apply view-last-applied configmap settings",
            "edit configmap settings",
            'patch pod gated --type=merge -p \'{"spec":{"schedulingGates":[]}}\'',
            "get pod gated",
            "taint nodes small dedicated=batch:NoExecute",
            "taint nodes small dedicated:NoExecute-",
            "taint nodes small bad=x:Never",
            "cordon big",
            "uncordon big small",
            "get nodes",
            "drain small --ignore-daemonsets",
            "uncordon small",
            "scale --replicas=2 deployment/nobody",
            "rollout status deployment/nobody",
        ),
    ),
    (
        "Generated",
        (
            "run once --image=registry.example/once:1 --restart=Never --dry-run=client -o yaml",
            "create deployment shop --image=registry.example/shop:1 --replicas=2 --dry-run=server",
            "create deployment shop --image=registry.example/shop:1 --dry-run=client -o yaml",
            "create job import --image=registry.example/import:1 --dry-run=server",
            "create configmap more --from-literal=a=1 --from-literal=b=2",
            "create secret generic login --from-literal=user=me",
            "get secret login -o yaml",
            "create serviceaccount robot",
            "create role reader --verb=get,list --resource=pods,pods/log",
            "create rolebinding robot-reads --role=reader --serviceaccount=market:robot",
            "create clusterrole habits-nodes --verb=get --resource=nodes",
            "create clusterrolebinding habits-robot --clusterrole=habits-nodes --serviceaccount=market:robot",
            "get roles,rolebindings -o name",
            "get rolebinding robot-reads -o wide",
            "describe role reader",
            "describe clusterrolebinding habits-robot",
            "create poddisruptionbudget web --min-available=50% --selector=app=web",
            "create priorityclass habits-high --value=1000 --description=urgent",
            "create priorityclass habits-huge --value=2000000000",
            "get priorityclass habits-high",
            "describe priorityclass habits-high",
            "create service clusterip cart --tcp=80:8080",
            "create service nodeport outside --tcp=80 --dry-run=server",
            "create ingress cart --rule=cart.example.com/=cart:80",
            "get ingress cart",
            "create quota small --hard=pods=50 --dry-run=server",
            "create namespace market",
            "create nonsense",
        ),
    ),
    (
        "Who may do what",
        (
            "auth whoami",
            "auth whoami -o jsonpath={.status.userInfo.username}",
            "auth can-i create pods",
            "auth can-i '*' '*' --all-namespaces",
            "auth can-i list pods --as=system:serviceaccount:market:robot",
            "auth can-i list secrets --as=system:serviceaccount:market:robot",
            "auth can-i get nodes --as=system:serviceaccount:market:robot",
            "auth can-i get pods --subresource=log --as=system:serviceaccount:market:robot",
            "auth can-i get /healthz --as=nobody",
            "auth can-i --list --as=nobody --no-headers",
            "get pods -o name --as=system:serviceaccount:market:robot",
            "get secrets --as=system:serviceaccount:market:robot",
            "delete pod cart --as=nobody",
        ),
    ),
    (
        "Mistakes",
        (
            "create -f typed.yaml",
            "create -f typed.yaml --validate=false",
            "create -f misspelt.yaml",
            "create -f misspelt.yaml --validate=warn --dry-run=server",
            "create -f misspelt.yaml --validate=ignore --dry-run=server",
            "create -f broken.yaml",
            "apply -f broken.yaml",
            "create -f monitor.yaml",
            "create -f nowhere.yaml",
            "create -f pod.yaml",
            "replace -f storage.yaml",
            "delete configmap nobody",
            "delete configmap nobody --ignore-not-found",
            "top pods",
            "top nodes",
        ),
    ),
    (
        "Deleted",
        (
            "delete pod gated --dry-run=server",
            "delete pod gated --wait=false",
            "delete pods -l app=cart --now",
            "wait --for=delete pod/cart --timeout=20s",
            "delete configmaps more settings",
            "delete secret login --cascade=orphan",
            "delete pods --all",
            "delete role,rolebinding --all",
            "delete clusterrole/habits-nodes clusterrolebinding/habits-robot",
            "delete priorityclass habits-high",
            "delete pdb --all",
            "delete ingress,service cart",
            "delete -f storage.yaml --wait=false",
            "delete nodes big small",
            "delete namespace default",
        ),
    ),
)
