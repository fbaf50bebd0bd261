// A certificate and its private key as text.
#pragma once

#include <string>

namespace gpupool::tls {

// Both in PEM form. The certificates of intermediate authorities follow the own
// one.
struct PemPair {
  std::string certificate;
  std::string key;
};

}  // namespace gpupool::tls
