package hammer

import (
	"context"
	"fmt"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/inference"
	"github.com/assay-bench/assay/internal/clock"
)

// Ask puts one prompt to the engine at temperature 0 and gives the answer. The
// configuration must be resolved (see [Resolve]).
func Ask(ctx context.Context, c Config, prompt string, tokens int) (string, error) {
	c.KeepText = true
	config, err := c.client(clock.New())
	if err != nil {
		return "", err
	}
	client, err := inference.New(config)
	if err != nil {
		return "", err
	}
	defer client.Close()
	zero := 0.0
	var r assay.Request
	client.Do(ctx, &inference.Job{Prompt: prompt, MaxTokens: tokens, Temperature: &zero}, &r)
	if r.Error != "" {
		return "", fmt.Errorf("the engine at %s: %s %s", c.URL, r.Error, r.Detail)
	}
	return r.Text, nil
}
