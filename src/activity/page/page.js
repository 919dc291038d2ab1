'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const $ = id => document.getElementById(id);
  const colours = ['#4e79a7', '#f28e2c', '#59a14f', '#af7aa1', '#76b7b2', '#edc949', '#e15759', '#ff9da7', '#9c755f', '#bab0ab'];
  const end = Math.max(data.end, 1e-9);

  const bytes = n => {
    const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
    let unit = 0;
    while (n >= 1024 && unit < units.length - 1) { n /= 1024; ++unit; }
    return (unit ? n.toFixed(n < 10 ? 2 : 1) : n) + ' ' + (unit === 0 && n === 1 ? 'byte' : units[unit]);
  };
  const time = s => s >= 1 ? s.toFixed(2) + ' s' : s >= 1e-3 ? (s * 1e3).toFixed(2) + ' ms' : (s * 1e6).toFixed(0) + ' µs';
  const count = (n, word) => n.toLocaleString('en') + ' ' + word + (n === 1 ? '' : 's');

  // ---- words
  $('program').textContent = data.program;
  const held = data.allocations.filter(a => a.end === null && !a.host);
  const heldBytes = held.reduce((sum, a) => sum + a.bytes, 0);
  $('totals').textContent = [count(data.counts.allocations, 'allocation'), count(data.counts.operations, 'operation'),
    count(data.counts.findings, 'finding'), ...(data.failures.length ? [count(data.counts.failures, 'failed allocation')] : []), 'held at the end: ' + (held.length ? bytes(heldBytes) : 'nothing'), time(data.end)].join(' · ');
  $('peak').textContent = data.peak.bytes
    ? 'Peak: ' + bytes(data.peak.bytes) + ' at ' + time(data.peak.seconds) + ', in ' + count(data.peak.allocations, 'allocation') + '.'
    : 'No device memory was allocated.';
  if (data.counts.allocations > data.allocations.length)
    $('peak').textContent += ' The ' + data.allocations.length.toLocaleString('en') + ' largest allocations are shown.';
  const describe = a => a.label + ' of ' + bytes(a.bytes) + ', ' + time(a.begin) + ' to ' +
    (a.end === null ? 'the end' : time(a.end)) + (a.place ? '\n' + a.stack.join('\n') : '');

  const table = (into, heads, rows, none) => {
    const place = $(into);
    if (!rows.length) { const p = document.createElement('p'); p.className = 'soft'; p.textContent = none; place.append(p); return; }
    const all = document.createElement('table'), head = all.createTHead().insertRow(), body = all.createTBody();
    heads.forEach(([text, kind]) => { const th = document.createElement('th'); th.textContent = text; th.className = kind; th.scope = 'col'; head.append(th); });
    rows.forEach(row => { const tr = body.insertRow(); row.forEach((text, i) => { const td = tr.insertCell(); td.textContent = text; td.className = heads[i][1]; }); });
    const scroll = document.createElement('div'); scroll.className = 'scroll'; scroll.append(all); place.append(scroll);
  };
  const most = 50;
  const madeAt = a => !a.place ? 'not known' : a.caller ? a.place + '\ncalled at ' + a.caller : a.place;
  const byId = new Map(data.allocations.map(a => [a.id, a]));
  table('peak-table', [['bytes', 'n'], ['share', 'n'], ['call', 'code'], ['made at', 'code']],
    data.peak.held.map(id => byId.get(id)).filter(Boolean).slice(0, most).map(a =>
      [bytes(a.bytes), (100 * a.bytes / data.peak.bytes).toFixed(1) + ' %', a.label, madeAt(a)]), 'No device memory was allocated.');
  table('held-table', [['bytes', 'n'], ['since', 'n'], ['call', 'code'], ['made at', 'code']],
    held.sort((a, b) => b.bytes - a.bytes).slice(0, most).map(a => [bytes(a.bytes), time(a.begin), a.label, madeAt(a)]),
    'All device memory was freed.');
  if (data.failures.length)
    table('failures-table', [['failed at', 'n'], ['bytes', 'n'], ['free then', 'n'], ['asked for at', 'code']],
      data.failures.slice(0, most).map(f => [time(f.seconds), bytes(f.bytes), bytes(f.free), madeAt(f)]), '');
  const dead = a => a.last_use ? Math.max(0, (a.end === null ? data.end : a.end) - a.last_use) : null;
  table('bytes-table', [['bytes', 'n'], ['never written', 'n'], ['never read', 'n'], ['dead time', 'n'], ['last written by', 'code'], ['made at', 'code']],
    data.allocations.filter(a => a.counted && (a.never_written || a.never_read)).sort((a, b) =>
      b.never_written + b.never_read - a.never_written - a.never_read).slice(0, most).map(a =>
      [bytes(a.bytes), bytes(a.never_written), bytes(a.never_read), dead(a) === null ? 'never used' : time(dead(a)), a.writer || '–', madeAt(a)]),
    data.allocations.some(a => a.counted) ? 'Every byte was written and read.' : 'Bytes are counted where checks are on (assay run --check).');
  table('findings-list', [['at', 'n'], ['kind', 'code'], ['place', 'code'], ['what', '']],
    data.findings.map(f => [time(f.seconds), f.severity + ': ' + f.kind, f.where, f.message]), 'Nothing was found.');
  if (data.counts.findings > data.findings.length) {
    const more = document.createElement('p');
    more.className = 'soft';
    more.textContent = 'The first ' + data.findings.length.toLocaleString('en') + ' are shown.';
    $('findings-list').append(more);
  }

  // ---- plots: a canvas that is drawn again when its width changes
  const left = 72;
  const plot = (id, height, draw) => {
    const canvas = $(id);
    const paint = () => {
      const width = canvas.parentElement.clientWidth, ratio = window.devicePixelRatio || 1;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      canvas.style.height = height + 'px';
      const context = canvas.getContext('2d');
      context.scale(ratio, ratio);
      const style = getComputedStyle(document.documentElement);
      draw(context, width, { ink: style.getPropertyValue('--soft'), fail: style.getPropertyValue('--fail'), rule: style.getPropertyValue('--rule') });
    };
    new ResizeObserver(paint).observe(canvas.parentElement);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint);
    paint();
    return canvas;
  };
  const x = (seconds, width) => left + seconds / end * (width - left - 8);
  const secondsAt = (pixel, width) => (pixel - left) / (width - left - 8) * end;
  const marks = (context, width, height, colour) => {
    context.fillStyle = colour.fail;
    for (const f of [...data.findings, ...data.failures]) context.fillRect(x(f.seconds, width), 0, 1.5, height);
  };

  const device = data.allocations.filter(a => !a.host);
  const colourOf = new Map();
  for (const a of device) {
    const key = a.caller ? a.place + ', called at ' + a.caller : a.place || a.label;
    if (!colourOf.has(key)) colourOf.set(key, colours[colourOf.size % colours.length]);
    a.colour = colourOf.get(key);
  }
  const legend = (into, rows) => rows.forEach(([colour, text]) => {
    const one = document.createElement('span'), square = document.createElement('i');
    square.style.background = colour;
    one.append(square, text);
    $(into).append(one);
  });
  const mostPlaces = 8;
  legend('live-legend', [...colourOf].slice(0, mostPlaces).map(([place, colour]) => [colour, place]));
  if (colourOf.size > mostPlaces) $('live-legend').append('… and ' + count(colourOf.size - mostPlaces, 'other place') + '. ');
  if (device.length && !device.some(a => /:\d+( in |$)/.test(a.place)))
    $('live-legend').append('Compile the program with -g to see source lines.');
  const liveAt = seconds => device.filter(a => a.begin <= seconds && (a.end === null || a.end > seconds));
  const liveHeight = 280, scale = n => n / Math.max(1, data.peak.bytes) * (liveHeight - 24);
  const live = plot('live', liveHeight, (context, width, colour) => {
    const changes = [...device.map(a => [a.begin, a]), ...device.filter(a => a.end !== null).map(a => [a.end, a, true])].sort((a, b) => a[0] - b[0]);
    const now = new Set();
    let next = 0;
    for (let pixel = left; pixel < width - 8; ++pixel) {
      // All that lived within this column, so that short lives show.
      const until = secondsAt(pixel + 1, width), gone = [];
      while (next < changes.length && changes[next][0] < until) {
        const [, a, isEnd] = changes[next++];
        if (isEnd) gone.push(a); else now.add(a);
      }
      let base = liveHeight - 4;
      for (const a of now) {
        const tall = Math.max(.4, scale(a.bytes));
        if (base - tall < 19.5) break;  // one after the other within this column: together they are more than there ever was
        context.fillStyle = a.colour;
        context.fillRect(pixel, base - tall, 1, tall);
        base -= tall;
      }
      gone.forEach(a => now.delete(a));
    }
    context.fillStyle = colour.ink;
    context.font = '11px ui-monospace, monospace';
    context.textAlign = 'right';
    context.fillText(bytes(data.peak.bytes), left - 6, 30);
    context.fillText('0', left - 6, liveHeight - 6);
    context.fillStyle = colour.rule;
    context.fillRect(left, 20, width - left - 8, 1);
    marks(context, width, liveHeight, colour);
  });
  live.addEventListener('mousemove', event => {
    const box = live.getBoundingClientRect();
    let base = liveHeight - 4;
    const y = event.clientY - box.top;
    for (const a of liveAt(secondsAt(event.clientX - box.left, box.width))) {
      base -= Math.max(.4, scale(a.bytes));
      if (y >= base) { $('live-tip').textContent = describe(a); return; }
    }
    $('live-tip').textContent = 'nothing here at ' + time(Math.max(0, secondsAt(event.clientX - box.left, box.width)));
  });

  // ---- the pool: a row for each of the segments with the largest gaps, all of the same width
  const pool = data.pool, rows = pool.segments.slice(0, 24), segmentRow = 22;
  if (!pool.allocations) {
    $('pool-text').textContent = 'The program uses no pool (cudaMallocAsync, or PyTorch\'s allocator).';
    for (const id of ['segments', 'segments-tip']) $(id).hidden = true;
    $('segments').parentElement.hidden = true;
  } else {
    $('pool-text').textContent = 'A pool that places the program\'s ' + count(pool.allocations, 'allocation') +
      ' by the rules of PyTorch\'s caching allocator (default settings, one stream) reserves ' + bytes(pool.reserved) + ' in ' +
      count(pool.segment_count, 'segment') + '. The program has at most ' + bytes(pool.most_in_use) + ' in use. When it is fullest after it last grew, at ' +
      time(pool.seconds) + ', ' + bytes(pool.in_use) + ' are in use, ' + bytes(pool.rounding) + ' are rounding, and ' + bytes(pool.gaps.bytes) + ' are free in ' +
      count(pool.gaps.count, 'gap') + (pool.gaps.count > 1 ? ', the largest of ' + bytes(pool.gaps.largest) : '') + '.' +
      (device.some(a => /Async$/.test(a.label)) ? ' CUDA\'s own pools (cudaMallocAsync) may place it differently: how they do is not documented.' : '') +
      (rows.length < pool.segment_count ? ' The ' + rows.length + ' segments with the most free bytes are shown.' : '');
    const lastIn = segment => segment.blocks.map(([, id]) => byId.get(id)).filter(Boolean)
      .reduce((last, a) => !last || (a.end ?? Infinity) > (last.end ?? Infinity) ? a : last, null);
    table('pool-table', [['segment', 'n'], ['in gaps', 'n'], ['largest gap', 'n'], ['kept longest by', 'code']],
      rows.filter(segment => segment.gaps).map(segment => {
        const last = lastIn(segment);
        return [bytes(segment.bytes), bytes(segment.gaps), bytes(Math.max(...segment.blocks.map(([size, id]) => id ? 0 : size))),
          last ? bytes(last.bytes) + ', ' + (last.place || last.label) : 'nothing'];
      }), 'There are no gaps.');
    const canvas = plot('segments', rows.length * segmentRow + 8, (context, width, colour) => {
      context.font = '11px ui-monospace, monospace';
      context.textAlign = 'right';
      rows.forEach((segment, i) => {
        const top = i * segmentRow + 6;
        context.fillStyle = colour.ink;
        context.fillText(bytes(segment.bytes), left - 6, top + 11);
        context.strokeStyle = colour.rule;
        const wide = width - left - 8;
        context.strokeRect(left, top, wide, segmentRow - 7);
        let at = 0;
        for (const [size, id] of segment.blocks) {
          const from = left + at / segment.bytes * wide, to = left + (at += size) / segment.bytes * wide;
          if (!id) continue;
          context.fillStyle = byId.get(id)?.colour || colour.ink;
          context.fillRect(from, top, Math.max(.5, to - from - (to - from > 3 ? 1 : 0)), segmentRow - 7);
        }
      });
    });
    canvas.addEventListener('mousemove', event => {
      const box = canvas.getBoundingClientRect(), segment = rows[Math.floor((event.clientY - box.top - 3) / segmentRow)];
      let rest = segment ? (event.clientX - box.left - left) / (box.width - left - 8) * segment.bytes : -1;
      const block = rest < 0 ? null : segment.blocks.find(([size]) => (rest -= size) < 0);
      $('segments-tip').textContent = !block ? '' : !block[1] ? 'a gap of ' + bytes(block[0])
        : byId.has(block[1]) ? describe(byId.get(block[1])) : 'an allocation in a block of ' + bytes(block[0]);
    });
  }

  const streams = [...new Set(data.operations.map(o => o.stream))].sort((a, b) => a - b);
  const row = 30, lanesHeight = Math.max(1, streams.length) * row + 8;
  const kinds = { kernel: colours[0], copy: colours[1], fill: colours[4] };
  const kindNames = { kernel: 'kernels', copy: 'copies', fill: 'fills' };
  legend('lanes-legend', Object.keys(kinds).filter(kind => data.operations.some(o => o.kind === kind)).map(kind => [kinds[kind], kindNames[kind]]));
  if (data.findings.length) legend('lanes-legend', [['var(--fail)', 'findings']]);
  const lanes = plot('lanes', lanesHeight, (context, width, colour) => {
    context.font = '11px ui-monospace, monospace';
    context.textAlign = 'right';
    streams.forEach((stream, i) => {
      context.fillStyle = colour.ink;
      context.fillText('stream ' + stream, left - 6, i * row + 22);
    });
    for (const o of data.operations) {
      const from = x(o.begin, width), wide = Math.max(1, x(o.end, width) - from);
      context.fillStyle = o.fault ? colour.fail : kinds[o.kind];
      context.fillRect(from, streams.indexOf(o.stream) * row + 6, wide, row - 8);
    }
    marks(context, width, lanesHeight, colour);
  });
  lanes.addEventListener('mousemove', event => {
    const box = lanes.getBoundingClientRect();
    const stream = streams[Math.floor((event.clientY - box.top) / row)], at = event.clientX - box.left;
    const near = data.operations.find(o => o.stream === stream && at >= x(o.begin, box.width) - 2 && at <= Math.max(x(o.end, box.width), x(o.begin, box.width) + 1) + 2);
    $('lanes-tip').textContent = !near ? '' : near.name + '\n' + time(near.begin) + ' to ' + time(near.end) + (near.fault ? ', ended early: ' + near.fault : '') + '\n' + near.detail;
  });
  if (!data.operations.length) $('lanes-tip').textContent = 'There were no launches, copies or fills.';
  else if (data.counts.operations > data.operations.length)
    $('lanes-tip').textContent = 'The ' + data.operations.length.toLocaleString('en') + ' longest operations are shown. Point at the plot to see one.';
})();
