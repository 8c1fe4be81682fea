package streams

// storeDef is a store as the builder knows it.
type storeDef struct {
	name        string
	ordered     bool
	unordered   bool // who reads and writes it does not count on the order of records
	noChangelog bool
	noSerde     bool     // of keys or values: a fault
	table       *Builder // whose table writes it, nil for a store of processors
}

func (d *storeDef) changelog(app string) string {
	if d.noChangelog {
		return ""
	}
	return app + "-" + d.name + "-changelog"
}

// tableDef says how the table of a step emits.
type tableDef struct {
	emission Emission
	store    *storeDef
}

func tableOptions(opts []TableOption) (o options) {
	for _, opt := range opts {
		opt.applyTable(&o)
	}
	return o
}

// tableStore gives a step the store of its table.
func (b *Builder) tableStore(s *step, name string, o options) *storeDef {
	def := &storeDef{name: name, ordered: o.ordered, unordered: o.unordered, noChangelog: o.noChangelog, table: b}
	emission := o.emission
	if emission == emitDefault {
		emission = b.emission
	}
	if emission == emitDefault {
		emission = EmitAtCommit
	}
	b.stores = append(b.stores, def)
	s.stores = append(s.stores, def)
	s.table = &tableDef{emission: emission, store: def}
	return def
}
