package simulate

import "testing"

// What it costs to render one event, without and with habits.
func BenchmarkRender(b *testing.B) {
	for _, like := range []string{"plain", "vllm", "llama.cpp", "ollama"} {
		b.Run(like, func(b *testing.B) {
			var c Config
			if like != "plain" {
				if err := c.Like(like); err != nil {
					b.Fatal(err)
				}
			}
			e, err := New(c)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			h := e.habits()[0]
			v := &openAI{e: e, h: h, shape: e.shapes[0], chat: true, model: "m", token: e.shapes[0].token.fill("request", "1", "m")}
			r := &reply{voice: v, h: h, chunked: true, stream: true, running: true, usage: true, output: 100, quotedID: "request"}
			q := &sequence{reply: r, output: 100, given: 5, shown: 4, opened: true}
			r.sequences = []*sequence{q}
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				q.shown = 4
				buf = v.tokens(buf[:0], q, 1)
			}
		})
	}
}
