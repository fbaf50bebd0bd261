#include "server/http/port/http_port.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <iterator>
#include <list>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/http/port/connection.h"
#include "server/http/port/handler_pool.h"
#include "server/http/port/handshake_queue.h"
#include "server/http/port/listening_socket.h"
#include "server/http/port/response_head.h"

namespace gpupool::server {
namespace {

// Requests of one lane that wait for a thread.
constexpr size_t kMostWaiting = 256;
// Time between two looks at the deadlines of all connections.
constexpr auto kLookAtDeadlines = std::chrono::milliseconds(100);
// Time without accepting after the system refused a connection.
constexpr auto kPauseAccepting = std::chrono::milliseconds(100);
// Connections that are accepted before others get their turn.
constexpr int kMostAtOnce = 64;
constexpr auto kBetweenLogLines = std::chrono::minutes(1);
constexpr size_t kLeastConnections = 8;

// Limits a warning to one line a minute.
class RareWarning {
 public:
  // Returns whether to log now, and counts that as a line.
  bool IsDue() {
    const SteadyTime now = std::chrono::steady_clock::now();
    if (last_.has_value() && now - *last_ < kBetweenLogLines) return false;
    last_ = now;
    return true;
  }

 private:
  std::optional<SteadyTime> last_;
};

// Returns the number of files that this process has open.
size_t OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return 0;
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

// Returns the limits, with a total that leaves files for the others of this
// process: half of those that are not open yet.
ConnectionLimits WithinOpenFiles(ConnectionLimits limits) {
  rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    const size_t free =
        files.rlim_cur - std::min<size_t>(files.rlim_cur, OpenFiles());
    limits.total = std::min<size_t>(
        limits.total, std::max<size_t>(free / 2, kLeastConnections));
  }
  return limits;
}

bool IsForThisConnectionOnly(int error) {
  return error == EINTR || error == ECONNABORTED || error == EPROTO ||
         error == EPERM;
}

// Sends the answer to a connection that may not stay, if that costs nothing,
// and closes it.
void TurnAway(int socket, const std::string& answer) {
  char unread[4096];
  // The system throws away an answer when unread bytes are left.
  (void)!::recv(socket, unread, sizeof(unread), MSG_DONTWAIT);
  (void)!::send(socket, answer.data(), answer.size(),
                MSG_DONTWAIT | MSG_NOSIGNAL);
  ::shutdown(socket, SHUT_WR);
  (void)!::recv(socket, unread, sizeof(unread), MSG_DONTWAIT);
  ::close(socket);
}

}  // namespace

class HttpPort::Impl final : public ConnectionOwner {
 public:
  Impl(const HttpPortOptions& options, HttpRouter router)
      : options_(options),
        router_(std::move(router)),
        counts_(WithinOpenFiles(options.connections)),
        handshakes_(options.handshakes),
        answers_(options.answer_bytes),
        work_(io_.get_executor()),
        listening_(io_),
        look_(io_),
        pause_(io_) {
    HttpResponse full = router_.other().error(
        absl::UnavailableError(
            "there are too many connections over HTTP; retry later"),
        0);
    full_ = absl::StrCat(
        ResponseHead(full, {.content_length = full.body.size()}), full.body);
  }

  ~Impl() override {
    if (!thread_.joinable()) return;
    BeginStop();
    // Runs what waits. From then on nothing is answered any more.
    for (auto& pool : pools_) pool.reset();
    boost::asio::post(io_, [this] { FinishConnections(); });
    thread_.join();
  }

  absl::Status Start() {
    if (options_.set_up_tls != nullptr) {
      tls_.emplace(boost::asio::ssl::context::tls_server);
      if (!options_.set_up_tls(*tls_->native_handle())) {
        return absl::InternalError("TLS could not be set up for HTTP");
      }
    }
    auto listening = Listen(options_.address, options_.port);
    if (!listening.ok()) return listening.status();
    port_ = listening->port;
    ip6_ = listening->ip6;
    boost::system::error_code error;
    listening_.assign(listening->socket, error);
    if (error) {
      ::close(listening->socket);
      return absl::UnavailableError(absl::StrCat(
          "the socket of HTTP cannot be watched: ", error.message()));
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if (lane == static_cast<size_t>(Lane::kHere)) continue;
      pools_[lane] =
          std::make_unique<HandlerPool>(options_.threads[lane], kMostWaiting);
    }
    AwaitConnections();
    LookLater();
    thread_ = std::thread([this] { Serve(); });
    return absl::OkStatus();
  }

  void BeginStop() {
    absl::Notification stopped;
    boost::asio::post(io_, [&] {
      stopping_ = true;
      boost::system::error_code ignored;
      listening_.close(ignored);
      pause_.cancel(ignored);
      while (!idle_.empty()) idle_.front().connection->Close();
      stopped.Notify();
    });
    stopped.WaitForNotification();
  }

  int port() const { return port_; }

  const HttpRouter& router() const override { return router_; }
  const HttpDeadlines& deadlines() const override { return options_.deadlines; }
  bool stopping() const override { return stopping_; }
  BodyBudget& answers() override { return answers_; }

  bool Run(Lane lane, std::function<void()> job) override {
    // The pools end soon.
    if (stopping_) return false;
    return pools_[static_cast<size_t>(lane)]->Add(std::move(job));
  }

  bool MayBeginHandshake(HttpConnection* connection) override {
    return handshakes_.Begin(connection, connections_.at(connection).client);
  }

  void HandshakeEnded(HttpConnection* connection) override {
    HttpConnection* const next = handshakes_.End(connection);
    if (next != nullptr) next->BeginHandshake();
  }

  void SetIdle(HttpConnection* connection, bool idle) override {
    Entry& entry = connections_.at(connection);
    if (idle) {
      entry.idle = idle_.insert(idle_.end(),
                                {connection, std::chrono::steady_clock::now()});
    } else {
      idle_.erase(entry.idle);
    }
  }

  void Ended(HttpConnection* connection) override {
    const auto entry = connections_.find(connection);
    counts_.GiveBack(entry->second.client);
    // Last, since this may be the last owner.
    const auto ended = std::move(entry->second.connection);
    connections_.erase(entry);
    if (tls_.has_value()) HandshakeEnded(connection);
    if (finishing_ && connections_.empty()) End();
  }

 private:
  using Code = boost::system::error_code;

  struct Idle {
    HttpConnection* connection = nullptr;
    SteadyTime since;
  };
  struct Entry {
    std::shared_ptr<HttpConnection> connection;
    ClientAddress client;
    std::list<Idle>::iterator idle;  // valid while it is idle
  };

  void Serve() {
    while (true) {
      try {
        io_.run();
        return;
      } catch (const std::exception& error) {
        // Memory ran out, say. The connection ends at its deadline.
        if (failures_.IsDue()) {
          spdlog::warn("an event of HTTP failed http_port={} error=\"{}\"",
                       port_, error.what());
        }
      }
    }
  }

  void AwaitConnections() {
    listening_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                          [this](Code error) {
                            if (stopping_) return;
                            if (error) return PauseAccepting(error.value());
                            AcceptSome();
                          });
  }

  // Waits for the next connections after any failure, too.
  void AcceptSome() {
    int error = ENOMEM;
    try {
      error = AcceptWaiting();
    } catch (const std::exception&) {
      // Memory ran out.
    }
    if (error != 0) return PauseAccepting(error);
    AwaitConnections();
  }

  // Returns 0, or the error of the system after which to pause.
  int AcceptWaiting() {
    for (int i = 0; i < kMostAtOnce; ++i) {
      sockaddr_storage address = {};
      socklen_t size = sizeof(address);
      const int socket = ::accept4(listening_.native_handle(),
                                   reinterpret_cast<sockaddr*>(&address), &size,
                                   SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (socket >= 0) {
        ClientAddress client = ClientAddressOf(address);
        if (options_.asks_users) client.user = PeerUserOf(socket);
        Admit(socket, client);
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      if (!IsForThisConnectionOnly(errno)) return errno;
    }
    return 0;
  }

  void PauseAccepting(int error) {
    if (refusals_.IsDue()) {
      spdlog::warn(
          "HTTP cannot accept a connection and tries again http_port={} "
          "error=\"{}\" remedy=\"raise the limit of open files, or close "
          "connections\"",
          port_, std::generic_category().message(error));
    }
    pause_.expires_after(kPauseAccepting);
    pause_.async_wait([this](Code) {
      if (!stopping_) AcceptSome();
    });
  }

  // Starts a connection, or turns it away at a limit.
  void Admit(int socket, const ClientAddress& client) {
    MakeRoom();
    if (!counts_.Take(client)) {
      if (full_warnings_.IsDue()) {
        spdlog::warn(
            "HTTP turns connections away http_port={} client={} open={} "
            "most={} most_by_client={}",
            port_, client.text, counts_.total(), counts_.limits().total,
            counts_.limits().by_client);
      }
      if (tls_.has_value()) {
        ::close(socket);
      } else {
        TurnAway(socket, full_);
      }
      return;
    }
    const ConnectionNeeds needs{
        .io = &io_, .tls = tls_.has_value() ? &*tls_ : nullptr, .owner = this};
    std::shared_ptr<HttpConnection> connection;
    try {
      connection = MakeConnection(needs, socket, ip6_, client);
      if (connection != nullptr) {
        connections_[connection.get()] = {connection, client, {}};
      }
    } catch (const std::exception&) {
      counts_.GiveBack(client);
      throw;
    }
    if (connection == nullptr) return counts_.GiveBack(client);
    connection->Start();
  }

  // Closes the connection that is idle for longest when three quarters of the
  // limit are open.
  void MakeRoom() {
    const size_t most = counts_.limits().total;
    if (counts_.total() < most - most / 4 || idle_.empty()) return;
    const auto least = absl::ToChronoNanoseconds(options_.least_idle);
    const auto idle = std::chrono::steady_clock::now() - idle_.front().since;
    if (idle >= least) idle_.front().connection->Close();
  }

  void LookLater() {
    look_.expires_after(kLookAtDeadlines);
    look_.async_wait([this](Code error) {
      if (error) return;
      // First, so that the looks go on when one fails.
      LookLater();
      LookAtDeadlines();
    });
  }

  void LookAtDeadlines() {
    const SteadyTime now = std::chrono::steady_clock::now();
    for (const auto& connection : All()) connection->EndIfLate(now);
  }

  // Returns all connections, some of which may end meanwhile.
  std::vector<std::shared_ptr<HttpConnection>> All() const {
    std::vector<std::shared_ptr<HttpConnection>> all;
    all.reserve(connections_.size());
    for (const auto& [key, entry] : connections_) {
      all.push_back(entry.connection);
    }
    return all;
  }

  void FinishConnections() {
    finishing_ = true;
    for (const auto& connection : All()) connection->Finish();
    if (connections_.empty()) End();
  }

  // Ends the thread of the port.
  void End() {
    boost::system::error_code ignored;
    look_.cancel(ignored);
    work_.reset();
    io_.stop();
  }

  const HttpPortOptions options_;
  const HttpRouter router_;
  ConnectionCounts counts_;
  HandshakeQueue handshakes_;
  BodyBudget answers_;  // before the loop, which may own the last connections
  std::string full_;    // the answer to a connection too many
  std::optional<boost::asio::ssl::context> tls_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type>
      work_;
  boost::asio::posix::stream_descriptor listening_;
  boost::asio::steady_timer look_;
  boost::asio::steady_timer pause_;  // between two tries to accept
  std::array<std::unique_ptr<HandlerPool>, kLanes> pools_;
  absl::flat_hash_map<HttpConnection*, Entry> connections_;
  std::list<Idle> idle_;  // the one that is idle for longest first
  bool stopping_ = false;
  bool finishing_ = false;  // no more answers are made
  RareWarning failures_;
  RareWarning refusals_;
  RareWarning full_warnings_;
  bool ip6_ = false;
  int port_ = 0;
  std::thread thread_;
};

HttpPort::HttpPort(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpPort::~HttpPort() = default;

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Start(
    const HttpPortOptions& options, HttpRouter router) {
  auto impl = std::make_unique<Impl>(options, std::move(router));
  const absl::Status started = impl->Start();
  if (!started.ok()) return started;
  return std::unique_ptr<HttpPort>(new HttpPort(std::move(impl)));
}

void HttpPort::BeginStop() { impl_->BeginStop(); }

int HttpPort::port() const { return impl_->port(); }

}  // namespace gpupool::server
