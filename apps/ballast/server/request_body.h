// A request's body for Boost.Beast's parser: grows with the bytes that come, not with the length that is promised.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>
#include <cstdint>
#include <string>

namespace ballast::cli {

struct RequestBody {
  using value_type = std::string;
  static uint64_t size(const value_type& body) { return body.size(); }

  class reader {
   public:
    template <bool is_request, typename Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& body) : body_(body) {}

    // Reserves nothing: a thousand clients could promise 16 MiB each.
    void init(const boost::optional<uint64_t>&, boost::beast::error_code& code) { code = {}; }

    template <typename Buffers>
    size_t put(const Buffers& buffers, boost::beast::error_code& code) {
      const size_t before = body_.size();
      for (auto at = boost::asio::buffer_sequence_begin(buffers); at != boost::asio::buffer_sequence_end(buffers);
           ++at) {
        const boost::asio::const_buffer piece(*at);
        body_.append(static_cast<const char*>(piece.data()), piece.size());
      }
      code = {};
      return body_.size() - before;
    }

    void finish(boost::beast::error_code& code) { code = {}; }

   private:
    value_type& body_;
  };
};

}  // namespace ballast::cli
