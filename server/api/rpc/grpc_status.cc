#include "server/api/rpc/grpc_status.h"

#include <string>

namespace gpupool::server {
namespace {

// Limit of an error's text. gRPC accepts 8 KiB of metadata by default, and
// escapes each non-ASCII byte to three.
constexpr size_t kMaxMessageBytes = 2048;

std::string Cut(std::string text) {
  if (text.size() <= kMaxMessageBytes) return text;
  size_t end = kMaxMessageBytes;
  // Do not cut inside a UTF-8 sequence.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  text.resize(end);
  return text + "...";
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Cut(std::string(status.message())));
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

}  // namespace gpupool::server
