//go:build oldest

package main

import (
	"github.com/spf13/cobra"
	"k8s.io/kubernetes/cmd/kubelet/app"
)

// Newer ones take a context.
func kubelet() *cobra.Command {
	return app.NewKubeletCommand()
}
