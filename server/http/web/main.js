// Shows the page that the address names: "#/job/7" is pages/job.js with "7".

import {call, whenTokenIsWanted} from './api.js';
import {el} from './dom.js';
import * as compare from './pages/compare.js';
import * as job from './pages/job.js';
import * as jobs from './pages/jobs.js';
import * as memory from './pages/memory.js';
import * as models from './pages/models.js';
import * as pool from './pages/pool.js';
import * as submit from './pages/submit.js';
import * as usage from './pages/usage.js';
import {askForToken, offerSignOut} from './sign_in.js';

const PAGES = {compare, job, jobs, memory, models, pool, submit, usage};

const main = document.getElementById('main');
const notice = document.getElementById('notice');
let leave = new AbortController();

// Tells of an error until the next thing works. null: all is well.
function tell(error) {
  notice.hidden = error === null;
  notice.textContent = error === null ? '' : error.message;
}

// Returns the name of the page and what follows it; no page when malformed.
function partsOf(hash) {
  try {
    return (hash.replace(/^#\/?/, '') || 'pool').split('/').map(
        decodeURIComponent);
  } catch (error) {
    return [''];
  }
}

function show() {
  leave.abort();
  leave = new AbortController();
  const {signal} = leave;
  const [name, ...rest] = partsOf(location.hash);
  const page = Object.hasOwn(PAGES, name) ? PAGES[name] : undefined;
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
  // A page that was left has nothing to tell any more.
  page.show({main, signal, rest, tell: error => {
    if (!signal.aborted) tell(error);
  }});
}

async function greet() {
  const info = await call('AdminService/GetServerInfo').catch(() => null);
  if (info !== null) {
    document.getElementById('server').textContent =
        `${info.version}${info.draining ? ', draining' : ''}`;
  }
}

whenTokenIsWanted(reason => {
  leave.abort();
  askForToken(main, reason);
});
addEventListener('hashchange', () => {
  show();
  main.focus();
});
offerSignOut(document.querySelector('header'));
show();
greet();
