// Calls of the server's API as JSON: POST /api/gpupool.v1.SERVICE/METHOD.

const JSON_TYPE = {'Content-Type': 'application/json'};
// Key of the token in the storage of this tab, which ends with the tab.
const TOKEN = 'gpupool-token';

let wantToken = () => {};

export class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

// Returns the token that calls send; empty if there is none.
export function token() {
  return sessionStorage.getItem(TOKEN) ?? '';
}

// Sets the token of later calls. Characters that no header can have are left out.
export function setToken(text) {
  const known = text.replace(/[^!-~]/g, '');
  if (known === '') sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, known);
}

// Calls `ask` with the server's words when it wants a token, or another one.
export function whenTokenIsWanted(ask) {
  wantToken = ask;
}

function authorization() {
  return token() === '' ? {} : {Authorization: `Bearer ${token()}`};
}

async function post(method, text, options) {
  let answer;
  try {
    answer = await fetch(`/api/gpupool.v1.${method}`, {
      method: 'POST',
      body: text,
      ...options,
      headers: {...JSON_TYPE, ...authorization(), ...options.headers},
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError('UNAVAILABLE', 'the server does not answer');
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401) wantToken(told.message ?? '');
  throw new ApiError(
      told.code ?? String(answer.status),
      told.message ?? `the server answered ${answer.status}`);
}

// Returns the answer of a call, as in call('JobService/GetJob', {id: 7}).
export async function call(method, request = {}, signal = undefined) {
  return callWithText(method, JSON.stringify(request), signal);
}

// The same with a request that is JSON already. Numbers of 64 bits keep all
// their digits, which JSON.parse would round.
export async function callWithText(method, text, signal = undefined) {
  const answer = await post(method, text, {signal});
  return answer.json();
}

// Calls `take` with each message of a stream until it returns false or the
// stream ends.
export async function stream(method, request, take, signal = undefined) {
  const answer = await post(
      method, JSON.stringify(request),
      {signal, headers: {Accept: 'application/x-ndjson'}});
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  while (true) {
    const {value, done} = await reader.read();
    if (done) break;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line.trim() === '') continue;
      if (take(messageOf(JSON.parse(line))) === false) {
        await reader.cancel();
        return;
      }
    }
  }
  if (rest.trim() !== '') take(messageOf(JSON.parse(rest)));
}

// Throws the error with which a stream ends, if the line is one.
function messageOf(line) {
  if (line.error?.code === undefined) return line;
  throw new ApiError(line.error.code, line.error.message);
}

// Returns all rows of a list that comes in pages, at most `limit`.
export async function all(method, field, request, limit, signal = undefined) {
  const rows = [];
  let page_token = '';
  do {
    const page = await call(
        method, {...request, page_size: Math.min(limit, 1000), page_token},
        signal);
    rows.push(...page[field]);
    page_token = page.next_page_token;
  } while (page_token !== '' && rows.length < limit);
  return rows.slice(0, limit);
}

// Calls `look` now and every `seconds` until the signal aborts, except while
// nobody sees the page. A look begins only after the last one has ended.
// `onError` gets null after one that worked.
export async function repeat(seconds, signal, look, onError) {
  while (!signal.aborted) {
    try {
      if (!document.hidden) {
        await look();
        onError(null);
      }
    } catch (error) {
      if (signal.aborted) return;
      onError(error);
    }
    await new Promise(resolve => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, seconds * 1000);
      signal.addEventListener('abort', end);
    });
  }
}
