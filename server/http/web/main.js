// Shows the page that the address names: "#/job/7" is pages/job.js with "7".

import {call} from './api.js';
import {el} from './dom.js';
import * as compare from './pages/compare.js';
import * as job from './pages/job.js';
import * as jobs from './pages/jobs.js';
import * as memory from './pages/memory.js';
import * as models from './pages/models.js';
import * as pool from './pages/pool.js';
import * as submit from './pages/submit.js';
import * as usage from './pages/usage.js';

const PAGES = {compare, job, jobs, memory, models, pool, submit, usage};

const main = document.getElementById('main');
const notice = document.getElementById('notice');
let leave = new AbortController();

// Tells of an error until the next thing works. null: all is well.
function tell(error) {
  notice.hidden = error === null;
  notice.textContent = error === null ? '' : error.message;
}

function show() {
  leave.abort();
  leave = new AbortController();
  const [name, ...rest] =
      (location.hash.replace(/^#\/?/, '') || 'pool').split('/');
  const page = PAGES[name];
  tell(null);
  for (const anchor of document.querySelectorAll('nav a')) {
    const own = anchor.getAttribute('href') === `#/${page?.section ?? name}`;
    if (own) anchor.setAttribute('aria-current', 'page');
    else anchor.removeAttribute('aria-current');
  }
  main.replaceChildren();
  if (page === undefined) {
    main.append(el('h1', {}, 'No such page'));
    return;
  }
  document.title = `gpupool: ${name} ${rest.join(' ')}`.trim();
  page.show({main, signal: leave.signal, tell,
             rest: rest.map(decodeURIComponent)});
}

async function greet() {
  const info = await call('AdminService/GetServerInfo').catch(() => null);
  if (info !== null) {
    document.getElementById('server').textContent =
        `${info.version}${info.draining ? ', draining' : ''}`;
  }
}

addEventListener('hashchange', () => {
  show();
  main.focus();
});
show();
greet();
