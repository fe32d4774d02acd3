/* The protocol: length-prefixed frames over a stream socket, the same in both directions and on both sockets.
 *
 *   u32 length of what follows | u8 kind | u32 channel | payload          (little endian)
 *
 * Text and bytes inside a payload are a u32 length and that many bytes. The host is trusted to be correct, so a malformed
 * frame from it is a bug and ends the agent; what the agent sends is checked by the host as if it were hostile.
 */
#ifndef SANDLOT_WIRE_H
#define SANDLOT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_MAX (1u << 20)
#define CHUNK (64u << 10)

enum kind {
    /* host -> zygote, on the control socket */
    CONFIGURE = 1, START = 2, ADD_FOLDER = 3, ADD_UPPER = 4, DROP_LAYER = 5, COUNT = 6, FATE = 7,
    END = 8, WEIGH = 9,
    /* host -> agent */
    SPAWN = 16, INPUT = 17, GRANT = 18, KILL = 19, READ = 20, WRITE = 21, LIST = 22, CONNECT = 23, FREEZE = 24, CLOSE = 25,
    LISTEN = 26, ACCEPT = 27,
    /* agent or zygote -> host */
    HELLO = 64, OUTPUT = 65, EXITED = 66, DATA = 67, DONE = 68, FAILED = 69, CLOSED = 70, TAKEN = 71,
};

/* Bytes waiting between `start` and `end`. */
struct buffer {
    uint8_t *data;
    size_t start, end, size;
};

void buffer_put(struct buffer *buffer, const void *bytes, size_t count);
void buffer_room(struct buffer *buffer, size_t count);
void buffer_drop(struct buffer *buffer, size_t count);
void put_u8(struct buffer *buffer, uint8_t value);
void put_u32(struct buffer *buffer, uint32_t value);
void put_u64(struct buffer *buffer, uint64_t value);
void put_text(struct buffer *buffer, const char *text);

size_t frame_begin(struct buffer *buffer, enum kind kind, uint32_t channel);
void frame_end(struct buffer *buffer, size_t mark);
void frame_failed(struct buffer *buffer, uint32_t channel, int error, const char *what);
void frame_done(struct buffer *buffer, uint32_t channel, uint64_t value);

/* Reads a payload; running past its end sets `bad` and yields zeros, so callers check once. */
struct reader {
    const uint8_t *at, *end;
    bool bad;
};

uint8_t take_u8(struct reader *reader);
uint32_t take_u32(struct reader *reader);
uint64_t take_u64(struct reader *reader);
const uint8_t *take_bytes(struct reader *reader, size_t *count);
char *take_text(struct reader *reader); /* NUL-terminated copy; text with a NUL inside is bad */

#endif
