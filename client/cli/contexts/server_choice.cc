#include "client/cli/contexts/server_choice.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "client/cli/contexts/context_file.h"

namespace gpupool::client {
namespace {

// Fills what `choice` does not have yet.
void FillFrom(const ServerContext& context, ServerChoice& choice) {
  choice.address = context.address;
  choice.token.insecure = context.insecure;
  if (choice.tls.ca.empty()) choice.tls.ca = context.tls.ca;
  // The environment may have a certificate of its own, whose key is not that of
  // the context.
  if (choice.tls.certificate.empty() && choice.tls.key.empty()) {
    choice.tls.certificate = context.tls.certificate;
    choice.tls.key = context.tls.key;
  }
  if (choice.token.token.empty() && choice.token.file.empty()) {
    choice.token.file = context.token_file;
  }
}

absl::Status FillFromContext(const ServerFlags& flags, ServerChoice& choice) {
  const absl::StatusOr<std::string> path = ContextFilePath();
  if (!path.ok()) {
    const bool named = flags.context.has_value() || IsSet("GPUPOOL_CONTEXT");
    return named ? path.status() : absl::OkStatus();
  }
  const absl::StatusOr<ContextList> list = ReadContextFile(*path);
  if (!list.ok()) return list.status();
  const std::string name = ContextToUse(flags, *list);
  if (name.empty() && !flags.context.has_value()) return absl::OkStatus();
  const absl::StatusOr<ServerContext> context = FindContext(*list, name, *path);
  if (!context.ok()) return context.status();
  choice.context = name;
  FillFrom(*context, choice);
  return absl::OkStatus();
}

void ApplyFlags(const ServerFlags& flags, ServerChoice& choice) {
  if (flags.address.has_value()) {
    choice.address = *flags.address;
    // The context has allowed its own address only.
    choice.token.insecure = false;
  }
  if (flags.ca.has_value()) choice.tls.ca = *flags.ca;
  if (flags.certificate.has_value()) {
    choice.tls.certificate = *flags.certificate;
  }
  if (flags.key.has_value()) choice.tls.key = *flags.key;
  if (flags.token_file.has_value()) {
    choice.token.token.clear();
    choice.token.file = *flags.token_file;
  }
  if (flags.insecure) choice.token.insecure = true;
}

}  // namespace

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] != '\0';
}

std::string ContextToUse(const ServerFlags& flags, const ContextList& list) {
  if (flags.context.has_value()) return *flags.context;
  if (IsSet("GPUPOOL_CONTEXT")) return std::getenv("GPUPOOL_CONTEXT");
  return list.in_use;
}

absl::StatusOr<ServerChoice> ChooseServer(const ServerFlags& flags) {
  ServerChoice choice;
  const bool named = flags.context.has_value();
  if (!named) {
    choice.tls = DefaultTls();
    choice.token = DefaultToken();
  }
  if (named || !(flags.address.has_value() || IsSet("GPUPOOL_ADDRESS"))) {
    const absl::Status filled = FillFromContext(flags, choice);
    if (!filled.ok()) return filled;
  }
  if (choice.address.empty()) choice.address = DefaultAddress();
  ApplyFlags(flags, choice);
  return choice;
}

}  // namespace gpupool::client
