// Private to server/http/port: one connection of a client, as a machine of
// states. It runs on the thread of the port; only answers are made on other
// threads.
//
//   handshake (TLS) -> idle -> headers -> body -> answering -> writing -> idle
//                                                                 or lingering
//
// Every state but answering has a deadline, so no client can hold a connection
// for longer than the port likes.
//
// Thread-safety: the thread of the port. Ownership: shared with the operations
// that are under way; the owner must outlive them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "server/http/port/body_budget.h"
#include "server/http/port/connection_counts.h"
#include "server/http/port/http_deadlines.h"
#include "server/http/port/router.h"

namespace boost::asio {
class io_context;
namespace ssl {
class context;
}  // namespace ssl
}  // namespace boost::asio

namespace gpupool::server {

using SteadyTime = std::chrono::steady_clock::time_point;

class HttpConnection;

// The port, as its connections see it.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;

  virtual const HttpRouter& router() const = 0;
  virtual const HttpDeadlines& deadlines() const = 0;
  // Returns whether connections close after their answer.
  virtual bool stopping() const = 0;
  // Returns the bound on the large answers that clients have not taken. An
  // answer above the bound takes all of it.
  virtual BodyBudget& answers() = 0;
  // Runs the job on a thread of the lane. Returns false when too many wait,
  // and when the port stops.
  virtual bool Run(Lane lane, std::function<void()> job) = 0;
  // Returns whether the handshake of TLS may begin now. If not, BeginHandshake
  // of the connection is called later.
  virtual bool MayBeginHandshake(HttpConnection* connection) = 0;
  // Says that a handshake is over, so that another one may begin.
  virtual void HandshakeEnded(HttpConnection* connection) = 0;
  // Says whether the connection is idle. It may be closed at any time then, to
  // make room.
  virtual void SetIdle(HttpConnection* connection, bool idle) = 0;
  // Says, once for each connection, that it is closed.
  virtual void Ended(HttpConnection* connection) = 0;
};

class HttpConnection {
 public:
  virtual ~HttpConnection() = default;

  virtual void Start() = 0;
  // Begins the handshake of TLS for which the owner made it wait.
  virtual void BeginHandshake() = 0;
  // Closes the connection at once, whatever it does.
  virtual void Close() = 0;
  // Ends the connection, or its request, if its deadline has passed.
  virtual void EndIfLate(SteadyTime now) = 0;
  // Closes the connection unless it sends an answer, which then has to be taken
  // within HttpDeadlines::finish. Call it when no more answers are made.
  virtual void Finish() = 0;
};

struct ConnectionNeeds {
  boost::asio::io_context* io = nullptr;
  boost::asio::ssl::context* tls = nullptr;  // null: plain
  ConnectionOwner* owner = nullptr;
};

// Returns a connection that owns the socket; null when the system refuses to
// watch it. The socket is closed then.
std::shared_ptr<HttpConnection> MakeConnection(const ConnectionNeeds& needs,
                                               int socket, bool ip6,
                                               const ClientAddress& client);

}  // namespace gpupool::server
