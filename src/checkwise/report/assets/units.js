// Intervals with groups of runs as the unit, and what a difference may be called: the same
// criterion as checkwise.study.units and checkwise.study.verdict.

const ENOUGH_GROUPS = 3;
const SEED_UNITS = ['block', 'draw', 'trial'];
const DOMAIN_UNITS = ['domain', 'block_domain'];
const GROUPS = {
  block: 'blocks', draw: 'draws', trial: 'splits', domain: 'domains',
  block_domain: 'blocks × domains',
};
const both = (key) => `${key.hparams_seed} ${key.trial_seed}`;
const UNIT_LABELS = {
  block: both,
  draw: (key) => (key.hparams_seed === 0 ? '0' : both(key)),
  trial: (key) => String(key.trial_seed),
  domain: (key) => JSON.stringify([key.dataset, key.held_out]),
};

/** The cluster-t interval of the mean by each unit; `quantiles[G − 2]` is Student's with G − 1. */
function unitIntervals(values, keys, quantiles) {
  const n = values.length;
  const mean = fsum(values) / n;
  const alike = values.every((value) => value === values[0]);
  const variance = (label) => {
    const sums = new Map();
    values.forEach((value, i) => {
      const name = label(keys[i]);
      sums.set(name, (sums.get(name) ?? 0) + (value - mean));
    });
    const groups = sums.size;
    if (groups < 2) return { groups, variance: NaN };
    const squares = [...sums.values()].reduce((total, sum) => total + sum * sum, 0);
    return { groups, variance: alike ? 0 : (groups / (groups - 1)) * squares / (n * n) };
  };
  const found = Object.fromEntries(
    Object.entries(UNIT_LABELS).map(([unit, label]) => [unit, variance(label)]));
  const { block, domain } = found;
  const shared = variance((key) => `${UNIT_LABELS.block(key)} ${UNIT_LABELS.domain(key)}`);
  found.block_domain = {
    groups: Math.min(block.groups, domain.groups),
    variance: Math.max(
      block.variance + domain.variance - shared.variance, block.variance, domain.variance),
  };
  return Object.fromEntries(Object.entries(found).map(([unit, one]) => {
    const half = (quantiles[one.groups - 2] ?? NaN) * Math.sqrt(one.variance);
    return [unit, { groups: one.groups, low: mean - half, high: mean + half }];
  }));
}

/** Better, worse or unclear; how far that reaches; which units include zero. */
function verdictOf(one) {
  const units = one.units ?? {};
  const deciding = Object.keys(units).filter((unit) => units[unit].groups >= ENOUGH_GROUPS);
  const against = deciding.filter((unit) => !(units[unit].low > 0 || units[unit].high < 0));
  if (Number.isNaN(one.low) || (one.low <= 0 && one.high >= 0)) against.unshift('run');
  const unclear = ['run', ...SEED_UNITS].some((unit) => against.includes(unit));
  const everywhere = deciding.includes('domain') &&
    !DOMAIN_UNITS.some((unit) => against.includes(unit));
  return {
    direction: unclear ? 'unclear' : one.mean > 0 === one.metric.higher ? 'better' : 'worse',
    scope: !SEED_UNITS.some((unit) => deciding.includes(unit)) ? 'these runs'
      : everywhere ? 'new domains' : 'these domains',
    against,
  };
}

/** What narrows a difference, as the end of its clause; empty where nothing does. */
function cautionOf(one) {
  if (Number.isNaN(one.low)) return '';
  const { direction, scope, against } = verdictOf(one);
  if (against.includes('run')) return ', an interval that includes zero';
  if (direction === 'unclear') {
    const implied = against.includes('block') || against.includes('domain');
    const names = against.filter((unit) => !(implied && unit === 'block_domain'))
      .map((unit) => GROUPS[unit]);
    return `, which ${listed(names)} do not bear out`;
  }
  if (scope === 'these runs') return ' (shown for these runs, not for new seeds)';
  if (scope !== 'these domains') return '';
  const domains = one.units.domain.groups === 1 ? 'this domain' : 'these domains';
  return ` (shown for ${domains}, not for new ones)`;
}
