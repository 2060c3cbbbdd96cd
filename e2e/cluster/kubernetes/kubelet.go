//go:build !oldest

package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/kubernetes/cmd/kubelet/app"
)

func kubelet() *cobra.Command {
	return app.NewKubeletCommand(context.Background())
}
