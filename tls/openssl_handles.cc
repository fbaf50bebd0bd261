#include "tls/openssl_handles.h"

#include <openssl/err.h>

namespace gpupool::tls {

std::string TakeOpenSslError() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? "unknown error" : reason;
}

BioHandle ReaderOf(absl::string_view bytes) {
  return BioHandle(
      BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

}  // namespace gpupool::tls
