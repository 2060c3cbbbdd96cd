# shellcheck shell=sh disable=SC2154 # sourced, after settings.sh
# Certificates and kubeconfigs, new for each cluster: they are worthless elsewhere and never expire within its life.

# certificate FILE KIND SUBJECT
certificate() {
    issuer="-CA $pki/ca.crt -CAkey $pki/ca.key"
    [ "$2" != authority ] || issuer=
    # shellcheck disable=SC2086 # words
    openssl req -x509 -config "$here/config/openssl.cnf" -extensions "$2" -subj "$3" -days 3650 -nodes \
        -newkey ec -pkeyopt ec_paramgen_curve:P-256 -keyout "$pki/$1.key" -out "$pki/$1.crt" \
        $issuer 2>>"$log/openssl.log"
}

# kubeconfig FILE CERTIFICATE
kubeconfig() {
    cat >"$1" <<END
apiVersion: v1
kind: Config
current-context: $name
contexts:
- {name: $name, context: {cluster: $name, user: $2}}
clusters:
- name: $name
  cluster:
    server: $server
    certificate-authority-data: $(base64 -w 0 "$pki/ca.crt")
users:
- name: $2
  user:
    client-certificate-data: $(base64 -w 0 "$pki/$2.crt")
    client-key-data: $(base64 -w 0 "$pki/$2.key")
END
}

make_credentials() {
    pki=$state/pki
    (
        umask 077
        mkdir -p "$pki"
        SAN=IP:$node_ip,IP:$service_ip,IP:127.0.0.1,DNS:kubernetes.default.svc,DNS:kubernetes.default
        export SAN
        certificate ca authority /CN=assay-e2e
        certificate kube-apiserver server /CN=kube-apiserver
        certificate kube-controller-manager client /CN=system:kube-controller-manager
        certificate kube-scheduler client /CN=system:kube-scheduler
        certificate kube-proxy client /CN=system:kube-proxy
        certificate kubelet client "/O=system:nodes/CN=system:node:$name"
        certificate kubelet-server server "/O=system:nodes/CN=system:node:$name"
        certificate kubelet-client client /O=system:masters/CN=kube-apiserver
        certificate kwok client /O=system:masters/CN=kwok
        certificate volumes client /O=system:masters/CN=volumes
        certificate admin client /O=system:masters/CN=admin
        openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$pki/service-accounts.key" 2>>"$log/openssl.log"
        openssl pkey -in "$pki/service-accounts.key" -pubout -out "$pki/service-accounts.pub"
        for user in kube-controller-manager kube-scheduler kube-proxy kubelet kwok volumes; do
            kubeconfig "$pki/$user.kubeconfig" $user
        done
        kubeconfig "$KUBECONFIG" admin
    )
}
