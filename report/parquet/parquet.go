// Package parquet writes a run's requests and readings as Parquet, for who
// wants to look at them with DuckDB, pandas or Spark.
//
// The columns are those of requests.jsonl and telemetry.jsonl: the same names,
// the same units, with types. What is absent in a line is null in its column,
// an absent list is empty, and an absent flag is false. The files are derived:
// the run directory stays the evidence.
//
// Rows are written as they come. A row group is closed when it holds enough
// rows or enough bytes, so that memory does not grow with the run.
package parquet

import (
	"fmt"
	"io"
	"iter"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/assay-bench/assay"
)

// group is when a row group ends: after so many rows, or so many bytes of lists
// and texts. Readers skip by row group, and both ends hold one in memory.
type group struct{ rows, bytes int }

var usual = group{rows: 64 << 10, bytes: 16 << 20}

// request is a line of requests.jsonl. A zero in an optional column is null, as
// a zero is absent from the line.
type request struct {
	ID     string `parquet:"id"`
	Stage  string `parquet:"stage,dict"`
	Warmup bool   `parquet:"warmup"`
	Stream int32  `parquet:"stream,optional"`

	Scheduled int64 `parquet:"scheduled_ns,optional"`
	Eligible  int64 `parquet:"eligible_ns,optional"`
	Connect   int64 `parquet:"connect_ns,optional"`
	Sent      int64 `parquet:"sent_ns,optional"`
	First     int64 `parquet:"first_ns,optional"`
	Answer    int64 `parquet:"answer_ns,optional"`
	NoAnswer  bool  `parquet:"no_answer"`
	Last      int64 `parquet:"last_ns,optional"`
	End       int64 `parquet:"end_ns,optional"`

	Gaps        []int32 `parquet:"gaps_us,list"`
	ChunkTokens []int32 `parquet:"chunk_tokens,list"`
	Other       string  `parquet:"other,optional,dict"`
	OtherUS     []int32 `parquet:"other_us,list"`

	AskedInput   int64  `parquet:"asked_input_tokens,optional"`
	AskedOutput  int64  `parquet:"asked_output_tokens,optional"`
	InputTokens  int64  `parquet:"input_tokens,optional"`
	OutputTokens int64  `parquet:"output_tokens,optional"`
	CachedTokens int64  `parquet:"cached_tokens,optional"`
	Unplaced     int64  `parquet:"unplaced_tokens,optional"`
	TokensFrom   string `parquet:"tokens_from,optional,dict"`

	Error  string `parquet:"error,optional,dict"`
	Detail string `parquet:"error_detail,optional"`
	Status int32  `parquet:"http_status,optional"`

	Address string `parquet:"address,optional,dict"`

	Reads       int64 `parquet:"reads,optional"`
	MergedReads int64 `parquet:"merged_reads,optional"`
	BurstReads  int64 `parquet:"burst_reads,optional"`
	BurstChunks int64 `parquet:"burst_chunks,optional"`
	FirstMerged bool  `parquet:"first_merged"`
	FirstLag    int64 `parquet:"first_lag_us,optional"`
	MaxLag      int64 `parquet:"max_lag_us,optional"`
	ClockStep   bool  `parquet:"clock_step"`

	Engine *timings `parquet:"engine,optional"`
	Prompt int64    `parquet:"prompt"`
	Text   string   `parquet:"text,optional"`
}

type timings struct {
	Total         int64 `parquet:"total_ns,optional"`
	Load          int64 `parquet:"load_ns,optional"`
	Prompt        int64 `parquet:"prompt_ns,optional"`
	Eval          int64 `parquet:"eval_ns,optional"`
	PromptTokens  int64 `parquet:"prompt_tokens,optional"`
	EvalTokens    int64 `parquet:"eval_tokens,optional"`
	EvalIntervals int64 `parquet:"eval_intervals,optional"`
	FirstToken    int64 `parquet:"first_token_ns,optional"`
	Generation    int64 `parquet:"generation_ns,optional"`
	Queued        int64 `parquet:"queued_ns,optional"`
}

// reading is a line of telemetry.jsonl.
type reading struct {
	At     int64    `parquet:"t_ns,delta"`
	Source string   `parquet:"source,dict"`
	Name   string   `parquet:"name,dict"`
	Device string   `parquet:"device,optional,dict"`
	Value  *float64 `parquet:"value,optional"`
	Counts []int64  `parquet:"counts,list"`
}

// WriteRequests writes requests as they come, and stops at the first error of
// the sequence. What w has then got is not a Parquet file.
func WriteRequests(w io.Writer, seq iter.Seq2[*assay.Request, error]) error {
	return write(w, seq, requestRow, usual)
}

func requestRow(r *assay.Request) (request, int) {
	row := request{
		ID: r.ID, Stage: r.Stage, Warmup: r.Warmup, Stream: int32(r.Stream),
		Scheduled: r.Scheduled, Eligible: r.Eligible, Connect: r.Connect, Sent: r.Sent,
		First: r.First, Answer: r.Answer, NoAnswer: r.NoAnswer, Last: r.Last, End: r.End,
		Gaps: r.Gaps, ChunkTokens: r.ChunkTokens, Other: r.Other, OtherUS: r.OtherUS,
		AskedInput: int64(r.AskedInput), AskedOutput: int64(r.AskedOutput),
		InputTokens: int64(r.InputTokens), OutputTokens: int64(r.OutputTokens), CachedTokens: int64(r.CachedTokens),
		Unplaced: int64(r.Unplaced), TokensFrom: r.TokensFrom, Error: string(r.Error), Detail: r.Detail, Status: int32(r.Status), Address: r.Address,
		Reads: int64(r.Reads), MergedReads: int64(r.MergedReads), BurstReads: int64(r.BurstReads), BurstChunks: int64(r.BurstChunks), FirstMerged: r.FirstMerged,
		FirstLag: r.FirstLag, MaxLag: r.MaxLag, ClockStep: r.ClockStep,
		Prompt: int64(r.Prompt), Text: r.Text,
	}
	if e := r.Engine; e != nil {
		row.Engine = &timings{Total: e.Total, Load: e.Load, Prompt: e.Prompt, Eval: e.Eval,
			PromptTokens: int64(e.PromptTokens), EvalTokens: int64(e.EvalTokens), EvalIntervals: int64(e.EvalIntervals),
			FirstToken: e.FirstToken, Generation: e.Generation, Queued: e.Queued}
	}
	return row, 4*(len(r.Gaps)+len(r.ChunkTokens)+len(r.OtherUS)) + len(r.Text) + len(r.Detail) + len(r.ID) + len(r.Other)
}

// WriteReadings writes readings as they come, and stops at the first error of
// the sequence. What w has then got is not a Parquet file.
func WriteReadings(w io.Writer, seq iter.Seq2[*assay.Reading, error]) error {
	return write(w, seq, func(r *assay.Reading) (reading, int) {
		return reading{At: r.At, Source: r.Source, Name: r.Name, Device: r.Device, Value: r.Value, Counts: r.Counts}, 8 * len(r.Counts)
	}, usual)
}

// write copies each row before the sequence goes on, since the sequence may use
// its own again.
func write[Line, Row any](w io.Writer, seq iter.Seq2[*Line, error], row func(*Line) (Row, int), most group) error {
	// The least and the greatest of a page's texts help nobody, and would be kept
	// in full until the end: answers can be long.
	out := parquet.NewGenericWriter[Row](w, parquet.Compression(&zstd.Codec{}), parquet.CreatedBy("assay", "", ""),
		parquet.DataPageStatistics(false), parquet.SkipPageBounds("text"), parquet.SkipPageBounds("error_detail"))
	one := make([]Row, 1)
	rows, size := 0, 0
	for line, err := range seq {
		if err != nil {
			return fmt.Errorf("reading what to write as Parquet: %w", err)
		}
		var n int
		one[0], n = row(line)
		if _, err := out.Write(one); err != nil {
			return fmt.Errorf("writing Parquet: %w", err)
		}
		rows, size = rows+1, size+n
		if rows >= most.rows || size >= most.bytes {
			if err := out.Flush(); err != nil {
				return fmt.Errorf("writing Parquet: %w", err)
			}
			rows, size = 0, 0
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("writing Parquet: %w", err)
	}
	return nil
}
