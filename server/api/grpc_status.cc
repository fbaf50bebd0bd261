#include "server/api/grpc_status.h"

#include <string>

namespace gpupool::server {
namespace {

// gRPC accepts 8 KiB of metadata by default and writes a byte that is not
// plain ASCII as three.
constexpr size_t kMaxMessageBytes = 2048;

std::string Cut(std::string text) {
  if (text.size() <= kMaxMessageBytes) return text;
  size_t end = kMaxMessageBytes;
  // Not inside a UTF-8 sequence.
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

}  // namespace gpupool::server
