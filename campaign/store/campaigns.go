package store

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/database"
)

// Caps are the most that may be reserved and spent together.
type Caps struct {
	Cell     assay.Money `json:"cell"`
	Campaign assay.Money `json:"campaign"`
	Day      assay.Money `json:"day"` // of the whole installation, UTC
}

// Campaign is a matrix that is or was measured.
type Campaign struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Matrix   string    `json:"matrix"`   // the file, as it was
	Settings string    `json:"settings"` // JSON of whoever runs it
	Status   string    `json:"status"`   // running, or what it ended as
	Caps     Caps      `json:"caps"`
	Created  time.Time `json:"created_at"` // set by the store
	Ended    time.Time `json:"ended_at,omitzero"`
}

// Running is the status of a campaign that may rent.
const Running = "running"

// Cell is one combination of a matrix.
type Cell struct {
	ID       string `json:"id"`
	Campaign string `json:"campaign"`
	Number   int    `json:"number"`
	GPU      string `json:"gpu"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Engine   string `json:"engine"`
	Spec     string `json:"spec"` // JSON: what the plan says of it
	Progress
	Updated time.Time `json:"updated_at"` // set by the store
}

// Progress is how far a cell has come, in words of package campaign.
type Progress struct {
	Status  string `json:"status"`
	Stage   string `json:"stage"`
	Cause   string `json:"cause"`
	Message string `json:"message"`
}

// AddCampaign adds a campaign with all of its cells. Added again it stays as it is;
// another one under its id is ErrTaken.
func (s *Store) AddCampaign(ctx context.Context, c Campaign, cells []Cell) error {
	if c.Caps.Cell.Nano <= 0 || c.Caps.Campaign.Nano <= 0 || c.Caps.Day.Nano <= 0 {
		return fmt.Errorf("add campaign %s: each cap must be more than nothing: nothing is rented without a budget", c.ID)
	}
	return s.repeat(ctx, "add campaign "+c.ID, func(q database.Query) error {
		n, err := affected(q.ExecContext(ctx, `INSERT INTO campaigns (id, name, matrix, settings, status, cell_cap, campaign_cap, day_cap, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, `+s.db.Now()+`) ON CONFLICT (id) DO NOTHING`,
			c.ID, c.Name, c.Matrix, c.Settings, Running, c.Caps.Cell.Nano, c.Caps.Campaign.Nano, c.Caps.Day.Nano))
		if err != nil {
			return err
		}
		if n == 0 {
			var matrix string
			if err := q.QueryRowContext(ctx, "SELECT matrix FROM campaigns WHERE id = $1", c.ID).Scan(&matrix); err != nil || matrix == c.Matrix {
				return err
			}
			return ErrTaken
		}
		for _, l := range cells {
			_, err := q.ExecContext(ctx, `INSERT INTO cells (id, campaign, number, gpu, provider, model, engine, spec, status, stage, cause, message, updated_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, `+s.db.Now()+`)`,
				l.ID, c.ID, l.Number, l.GPU, l.Provider, l.Model, l.Engine, l.Spec, l.Status, l.Stage, l.Cause, l.Message)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

const campaignColumns = "id, name, matrix, settings, status, cell_cap, campaign_cap, day_cap, created_at, ended_at FROM campaigns"

func scanCampaign(r database.Row) (c Campaign, err error) {
	return c, r.Scan(&c.ID, &c.Name, &c.Matrix, &c.Settings, &c.Status, amount(&c.Caps.Cell), amount(&c.Caps.Campaign), amount(&c.Caps.Day), database.At(&c.Created), database.At(&c.Ended))
}

// Campaign reads a campaign.
func (s *Store) Campaign(ctx context.Context, id string) (c Campaign, err error) {
	err = s.view(ctx, "read campaign "+id, func(q database.Query) error {
		c, err = scanCampaign(q.QueryRowContext(ctx, "SELECT "+campaignColumns+" WHERE id = $1", id))
		return err
	})
	return c, err
}

// Campaigns lists all campaigns, the newest first.
func (s *Store) Campaigns(ctx context.Context) (list []Campaign, err error) {
	err = s.view(ctx, "list campaigns", func(q database.Query) error {
		list, err = database.All(ctx, q, scanCampaign, "SELECT "+campaignColumns+" ORDER BY created_at DESC, id DESC")
		return err
	})
	return list, err
}

// EndCampaign says what a campaign ended as. It takes no more intents from then on,
// until it is [Store.ResumeCampaign]d.
func (s *Store) EndCampaign(ctx context.Context, id, status string) error {
	return s.setCampaign(ctx, id, status, s.db.Now())
}

// ResumeCampaign lets a campaign rent again.
func (s *Store) ResumeCampaign(ctx context.Context, id string) error {
	return s.setCampaign(ctx, id, Running, "NULL")
}

// SetCaps gives a campaign other caps. What is reserved and spent stays.
func (s *Store) SetCaps(ctx context.Context, id string, c Caps) error {
	return s.one(ctx, "set the caps of campaign "+id, func(q database.Query) error {
		n, err := affected(q.ExecContext(ctx, "UPDATE campaigns SET cell_cap = $1, campaign_cap = $2, day_cap = $3 WHERE id = $4", c.Cell.Nano, c.Campaign.Nano, c.Day.Nano, id))
		if err == nil && n == 0 {
			return ErrNotFound
		}
		return err
	})
}

// Reopen has the cells of a campaign that ended for a cause wait again, and says how
// many they are.
func (s *Store) Reopen(ctx context.Context, id, cause string) (n int64, err error) {
	err = s.one(ctx, "reopen cells of campaign "+id, func(q database.Query) error {
		n, err = affected(q.ExecContext(ctx, "UPDATE cells SET status = 'pending', stage = '', cause = '', message = '', updated_at = "+s.db.Now()+" WHERE campaign = $1 AND cause = $2 AND status IN ('failed', 'skipped')", id, cause))
		return err
	})
	return n, err
}

func (s *Store) setCampaign(ctx context.Context, id, status, ended string) error {
	return s.one(ctx, "set campaign "+id+" to "+status, func(q database.Query) error {
		n, err := affected(q.ExecContext(ctx, "UPDATE campaigns SET status = $1, ended_at = "+ended+" WHERE id = $2", status, id))
		if err == nil && n == 0 {
			return ErrNotFound
		}
		return err
	})
}

const cellColumns = "id, campaign, number, gpu, provider, model, engine, spec, status, stage, cause, message, updated_at FROM cells"

func scanCell(r database.Row) (c Cell, err error) {
	return c, r.Scan(&c.ID, &c.Campaign, &c.Number, &c.GPU, &c.Provider, &c.Model, &c.Engine, &c.Spec, &c.Status, &c.Stage, &c.Cause, &c.Message, database.At(&c.Updated))
}

// Cell reads a cell.
func (s *Store) Cell(ctx context.Context, id string) (c Cell, err error) {
	err = s.view(ctx, "read cell "+id, func(q database.Query) error {
		c, err = scanCell(q.QueryRowContext(ctx, "SELECT "+cellColumns+" WHERE id = $1", id))
		return err
	})
	return c, err
}

// Cells lists the cells of a campaign in the matrix' order.
func (s *Store) Cells(ctx context.Context, campaign string) (cells []Cell, err error) {
	err = s.view(ctx, "list the cells of campaign "+campaign, func(q database.Query) error {
		cells, err = database.All(ctx, q, scanCell, "SELECT "+cellColumns+" WHERE campaign = $1 ORDER BY number", campaign)
		return err
	})
	return cells, err
}

// NextCells lists at most so many cells of a campaign that have one of the statuses
// and come after a number, in the matrix' order.
func (s *Store) NextCells(ctx context.Context, campaign string, after, most int, statuses ...string) (cells []Cell, err error) {
	err = s.view(ctx, "list the next cells of campaign "+campaign, func(q database.Query) error {
		cells, err = database.All(ctx, q, scanCell, "SELECT "+cellColumns+" WHERE campaign = $1 AND number > $2 AND "+s.db.Any("status", 3)+" ORDER BY number LIMIT $4",
			campaign, after, s.db.List(statuses), most)
		return err
	})
	return cells, err
}

// SetCell says how far a cell has come.
func (s *Store) SetCell(ctx context.Context, id string, p Progress) error {
	return s.one(ctx, "set the progress of cell "+id, func(q database.Query) error {
		n, err := affected(q.ExecContext(ctx, "UPDATE cells SET status = $1, stage = $2, cause = $3, message = $4, updated_at = "+s.db.Now()+" WHERE id = $5",
			p.Status, p.Stage, p.Cause, p.Message, id))
		if err == nil && n == 0 {
			return ErrNotFound
		}
		return err
	})
}
