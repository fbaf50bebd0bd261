#include "server/http/port/client_watch.h"

#include <boost/asio/buffer.hpp>
#include <utility>

namespace gpupool::server {
namespace {

constexpr size_t kWatchBuffer = 4 << 10;
constexpr size_t kDrainBuffer = 64 << 10;
// Bytes that a client may send while it gets a stream.
constexpr uint64_t kMostDuringStream = 64 << 10;
// Bytes that are dropped before a connection closes, so that a client that
// still sends sees the answer.
constexpr uint64_t kMostDropped = uint64_t{256} << 20;

}  // namespace

void ClientWatch::WatchDuringStream(Connection connection) {
  buffer_.resize(kWatchBuffer);
  watching_ = true;
  stream_->Read(boost::asio::buffer(buffer_),
                [this, connection = std::move(connection)](
                    ClientStream::Code error, size_t bytes) {
                  OnWatched(connection, error, bytes);
                });
}

void ClientWatch::OnWatched(Connection connection, ClientStream::Code error,
                            size_t bytes) {
  watching_ = false;
  if (ended_) return;
  dropped_ += bytes;
  if (lingering_) {
    if (sending_ended_) Drain(std::move(connection));
    return;
  }
  if (error || dropped_ > kMostDuringStream) return connection->Close();
  WatchDuringStream(std::move(connection));
}

void ClientWatch::Linger(Connection connection) {
  lingering_ = true;
  dropped_ = 0;
  stream_->EndSending(
      [this, connection = std::move(connection)](ClientStream::Code) {
        if (ended_) return;
        sending_ended_ = true;
        // The read of WatchDuringStream goes on with it otherwise.
        if (!watching_) Drain(connection);
      });
}

void ClientWatch::Drain(Connection connection) {
  buffer_.resize(kDrainBuffer);
  stream_->ReadRaw(boost::asio::buffer(buffer_),
                   [this, connection = std::move(connection)](
                       ClientStream::Code error, size_t bytes) {
                     if (ended_) return;
                     dropped_ += bytes;
                     if (error || dropped_ > kMostDropped) {
                       return connection->Close();
                     }
                     Drain(connection);
                   });
}

}  // namespace gpupool::server
