#include "engine/collective/gloo_mesh.h"

#include <gloo/context.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "engine/collective/gloo_store.h"

namespace gpupool::engine {
namespace {

using ::gloo::transport::UnboundBuffer;

// The shortest wait that Gloo accepts. It also lets a peer that is ready finish
// when the deadline has just passed.
constexpr absl::Duration kLeastWait = absl::Milliseconds(10);
// Gloo waits for a connection this many times its time-out.
constexpr int kGlooConnectFactor = 5;
// The time for one connection to a rank that has announced itself. Nothing can
// end this wait early.
constexpr absl::Duration kConnectWait = absl::Seconds(30);

std::chrono::milliseconds TimeLeft(absl::Time deadline) {
  return absl::ToChronoMilliseconds(
      std::max(kLeastWait, deadline - absl::Now()));
}

std::shared_ptr<::gloo::transport::Device> MakeDevice(
    const std::string& interface) {
  ::gloo::transport::tcp::attr attributes;
  if (interface.empty()) {
    attributes.hostname = "127.0.0.1";
  } else {
    attributes.iface = interface;
  }
  return ::gloo::transport::tcp::CreateDevice(attributes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<GlooMesh>> GlooMesh::Connect(
    const MeshPlace& place, RendezvousStore& store, absl::Time deadline,
    const std::atomic<bool>& cancelled) {
  auto mesh = std::unique_ptr<GlooMesh>(new GlooMesh());
  try {
    GlooStore gloo_store(&store, place.key_prefix, deadline, cancelled);
    const absl::Time connected = std::min(deadline, absl::Now() + kConnectWait);
    auto context =
        std::make_shared<::gloo::rendezvous::Context>(place.rank, place.size);
    // Gloo multiplies this time-out, so it is divided here.
    context->setTimeout(std::max(TimeLeft(connected) / kGlooConnectFactor,
                                 std::chrono::milliseconds(1)));
    std::shared_ptr<::gloo::transport::Device> device =
        MakeDevice(place.interface);
    context->connectFullMesh(gloo_store, device);
    mesh->context_ = std::move(context);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat(
        "rank ", place.rank, " of ", place.size, " cannot connect on ",
        place.interface.empty() ? "the loopback" : place.interface, ": ",
        error.what()));
  }
  return mesh;
}

GlooMesh::~GlooMesh() {
  try {
    context_.reset();
  } catch (const std::exception&) {
    // Errors of closing have no consequence.
  }
}

std::unique_ptr<UnboundBuffer> GlooMesh::BufferOf(const MeshPart& part) {
  return context_->createUnboundBuffer(part.data, part.bytes);
}

absl::Status GlooMesh::Await(UnboundBuffer& buffer, Direction direction,
                             absl::Time deadline) {
  {
    // The check and the assignment are one step, so that Cancel either prevents
    // this wait or finds the buffer to abort.
    const absl::MutexLock lock(&mutex_);
    if (cancelled_) return absl::CancelledError("cancelled");
    awaited_ = &buffer;
  }
  absl::Status status;
  try {
    const bool done = direction == Direction::kReceive
                          ? buffer.waitRecv(TimeLeft(deadline))
                          : buffer.waitSend(TimeLeft(deadline));
    if (!done) status = absl::CancelledError("cancelled");
  } catch (const std::exception& error) {
    status = absl::UnavailableError(error.what());
  }
  const absl::MutexLock lock(&mutex_);
  awaited_ = nullptr;
  return status;
}

absl::Status GlooMesh::Exchange(absl::Span<const MeshPart> out,
                                absl::Span<const MeshPart> in, uint64_t slot,
                                absl::Time deadline) {
  struct Transfer {
    int peer;
    Direction direction;
    std::unique_ptr<UnboundBuffer> buffer;
  };
  std::vector<Transfer> transfers;
  int peer = -1;
  absl::Status status;
  try {
    // Receives are posted before sends: data then has a place when it arrives.
    for (const MeshPart& part : in) {
      if (part.bytes == 0) continue;
      peer = part.peer;
      transfers.push_back({peer, Direction::kReceive, BufferOf(part)});
      transfers.back().buffer->recv(peer, slot);
    }
    for (const MeshPart& part : out) {
      if (part.bytes == 0) continue;
      peer = part.peer;
      transfers.push_back({peer, Direction::kSend, BufferOf(part)});
      transfers.back().buffer->send(peer, slot);
    }
  } catch (const std::exception& error) {
    lost_peer_ = peer;
    return absl::UnavailableError(error.what());
  }
  for (Transfer& transfer : transfers) {
    status = Await(*transfer.buffer, transfer.direction, deadline);
    if (absl::IsUnavailable(status)) lost_peer_ = transfer.peer;
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

void GlooMesh::Cancel() {
  const absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (awaited_ == nullptr) return;
  awaited_->abortWaitRecv();
  awaited_->abortWaitSend();
}

}  // namespace gpupool::engine
