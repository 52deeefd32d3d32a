package store

import (
	"context"
	"fmt"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/database"
)

// Scope is what a budget is for.
type Scope string

// Scopes of budgets.
const (
	OfCell     Scope = "cell"
	OfCampaign Scope = "campaign"
	OfDay      Scope = "day"
)

// Budget is what a cell, a campaign or a UTC day has reserved and spent.
type Budget struct {
	Scope    Scope       `json:"scope"`
	Name     string      `json:"name"` // an id, or a day as 2026-11-16
	Reserved assay.Money `json:"reserved"`
	Spent    assay.Money `json:"spent"`
}

// Budget reads a budget. One that was never used is empty.
func (s *Store) Budget(ctx context.Context, scope Scope, name string) (b Budget, err error) {
	b = Budget{Scope: scope, Name: name}
	err = s.view(ctx, fmt.Sprintf("read the budget of %s %s", scope, name), func(q database.Query) error {
		return q.QueryRowContext(ctx, "SELECT coalesce(sum(reserved), 0), coalesce(sum(spent), 0) FROM budgets WHERE scope = $1 AND name = $2", string(scope), name).Scan(amount(&b.Reserved), amount(&b.Spent))
	})
	return b, err
}

// Spend lists what each cell of a campaign has reserved and spent, by the cell's id.
func (s *Store) Spend(ctx context.Context, campaign string) (spend map[string]Budget, err error) {
	err = s.view(ctx, "read the spend of campaign "+campaign, func(q database.Query) error {
		rows, err := database.All(ctx, q, func(r database.Row) (b Budget, err error) {
			return b, r.Scan(&b.Scope, &b.Name, amount(&b.Reserved), amount(&b.Spent))
		}, "SELECT b.scope, b.name, b.reserved, b.spent FROM budgets b JOIN cells c ON b.scope = 'cell' AND b.name = c.id WHERE c.campaign = $1", campaign)
		spend = make(map[string]Budget, len(rows))
		for _, b := range rows {
			spend[b.Name] = b
		}
		return err
	})
	return spend, err
}

// budgetRows are the rows that an intent's money is in: $1 its cell, $2 its campaign, $3
// its day.
const budgetRows = "(scope = 'cell' AND name = $1 OR scope = 'campaign' AND name = $2 OR scope = 'day' AND name = $3)"

// reserve adds to the three budgets of an intent, or fails with ErrCap and has the
// transaction rolled back. Each row is compared with its cap as it is at the moment
// of its change: PostgreSQL looks again at a row that another transaction has just
// changed, which it would not do for a sum over rows.
func (s *Store) reserve(ctx context.Context, q database.Query, i Intent, caps Caps) error {
	_, err := q.ExecContext(ctx, `INSERT INTO budgets (scope, name, reserved, spent)
		VALUES ('campaign', $2, 0, 0), ('cell', $1, 0, 0), ('day', $3, 0, 0) ON CONFLICT (scope, name) DO NOTHING`, i.Cell, i.Campaign, i.Day)
	if err == nil {
		err = s.lockBudgets(ctx, q, i)
	}
	if err != nil {
		return err
	}
	n, err := affected(q.ExecContext(ctx, `UPDATE budgets SET reserved = reserved + $4
		WHERE `+budgetRows+` AND reserved + spent + $4 <= CASE scope WHEN 'cell' THEN CAST($5 AS BIGINT) WHEN 'campaign' THEN CAST($6 AS BIGINT) ELSE CAST($7 AS BIGINT) END`,
		i.Cell, i.Campaign, i.Day, i.Reserved.Nano, caps.Cell.Nano, caps.Campaign.Nano, caps.Day.Nano))
	if err == nil && n < 3 {
		return s.overCap(ctx, q, i, caps)
	}
	return err
}

// lockBudgets locks an intent's budgets in one order, so that no two transactions wait
// for each other.
func (s *Store) lockBudgets(ctx context.Context, q database.Query, i Intent) error {
	if s.db.ForUpdate() == "" {
		return nil // one writer at a time
	}
	_, err := q.ExecContext(ctx, "SELECT 1 FROM budgets WHERE "+budgetRows+" ORDER BY scope, name"+s.db.ForUpdate(), i.Cell, i.Campaign, i.Day)
	return err
}

// overCap says which cap a reservation would pass.
func (s *Store) overCap(ctx context.Context, q database.Query, i Intent, caps Caps) error {
	b, err := database.All(ctx, q, func(r database.Row) (b Budget, err error) {
		return b, r.Scan(&b.Scope, &b.Name, amount(&b.Reserved), amount(&b.Spent))
	}, "SELECT scope, name, reserved, spent FROM budgets WHERE "+budgetRows+" ORDER BY scope", i.Cell, i.Campaign, i.Day)
	if err != nil {
		return err
	}
	limit := map[Scope]assay.Money{OfCell: caps.Cell, OfCampaign: caps.Campaign, OfDay: caps.Day}
	for _, b := range b {
		if b.Reserved.Nano+b.Spent.Nano+i.Reserved.Nano > limit[b.Scope].Nano {
			return fmt.Errorf("%w of %s %s: %s are reserved and %s spent; %s more would pass %s", ErrCap, b.Scope, b.Name, b.Reserved, b.Spent, i.Reserved, limit[b.Scope])
		}
	}
	return fmt.Errorf("%w of cell %s, campaign %s or day %s", ErrCap, i.Cell, i.Campaign, i.Day)
}

// settle moves an intent's money from what is reserved to what is spent. Nothing is
// compared with a cap: what was spent was spent.
func (s *Store) settle(ctx context.Context, q database.Query, i Intent, release, spend int64) error {
	if i.Cell == "" { // adopted: nobody reserved for it
		return nil
	}
	if err := s.lockBudgets(ctx, q, i); err != nil {
		return err
	}
	_, err := q.ExecContext(ctx, "UPDATE budgets SET reserved = reserved - $4, spent = spent + $5 WHERE "+budgetRows, i.Cell, i.Campaign, i.Day, release, spend)
	return err
}
