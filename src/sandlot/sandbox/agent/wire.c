#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_room(struct buffer *buffer, size_t count)
{
    if (buffer->start == buffer->end)
        buffer->start = buffer->end = 0;
    if (buffer->end + count <= buffer->size)
        return;
    memmove(buffer->data, buffer->data + buffer->start, buffer->end - buffer->start);
    buffer->end -= buffer->start;
    buffer->start = 0;
    if (buffer->end + count <= buffer->size)
        return;
    size_t size = buffer->size ? buffer->size : 4096;
    while (size < buffer->end + count)
        size *= 2;
    buffer->data = realloc(buffer->data, size);
    if (!buffer->data)
        _Exit(70); /* out of memory inside the sandbox's own limit: the host sees the socket close */
    buffer->size = size;
}

void buffer_put(struct buffer *buffer, const void *bytes, size_t count)
{
    buffer_room(buffer, count);
    memcpy(buffer->data + buffer->end, bytes, count);
    buffer->end += count;
}

/* Memory of a large burst is given back: an idle agent must stay small, there are thousands of them. */
void buffer_drop(struct buffer *buffer, size_t count)
{
    buffer->start += count;
    if (buffer->start == buffer->end && buffer->size > 2 * CHUNK) {
        free(buffer->data);
        *buffer = (struct buffer){0};
    }
}

void put_u8(struct buffer *buffer, uint8_t value) { buffer_put(buffer, &value, 1); }
void put_u32(struct buffer *buffer, uint32_t value) { buffer_put(buffer, &value, 4); }
void put_u64(struct buffer *buffer, uint64_t value) { buffer_put(buffer, &value, 8); }

void put_text(struct buffer *buffer, const char *text)
{
    put_u32(buffer, (uint32_t)strlen(text));
    buffer_put(buffer, text, strlen(text));
}

/* The mark is relative to `start`, because making room may move the bytes. */
size_t frame_begin(struct buffer *buffer, enum kind kind, uint32_t channel)
{
    size_t mark = buffer->end - buffer->start;
    put_u32(buffer, 0);
    put_u8(buffer, (uint8_t)kind);
    put_u32(buffer, channel);
    return mark;
}

void frame_end(struct buffer *buffer, size_t mark)
{
    uint32_t length = (uint32_t)(buffer->end - buffer->start - mark - 4);
    memcpy(buffer->data + buffer->start + mark, &length, 4);
}

void frame_failed(struct buffer *buffer, uint32_t channel, int error, const char *what)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s", what, strerror(error));
    size_t mark = frame_begin(buffer, FAILED, channel);
    put_u32(buffer, (uint32_t)error);
    put_text(buffer, text);
    frame_end(buffer, mark);
}

void frame_done(struct buffer *buffer, uint32_t channel, uint64_t value)
{
    size_t mark = frame_begin(buffer, DONE, channel);
    put_u64(buffer, value);
    frame_end(buffer, mark);
}

static bool has(struct reader *reader, size_t count)
{
    if (reader->bad || (size_t)(reader->end - reader->at) < count)
        reader->bad = true;
    return !reader->bad;
}

uint8_t take_u8(struct reader *reader) { return has(reader, 1) ? *reader->at++ : 0; }

uint32_t take_u32(struct reader *reader)
{
    uint32_t value = 0;
    if (has(reader, 4)) {
        memcpy(&value, reader->at, 4);
        reader->at += 4;
    }
    return value;
}

uint64_t take_u64(struct reader *reader)
{
    uint64_t value = 0;
    if (has(reader, 8)) {
        memcpy(&value, reader->at, 8);
        reader->at += 8;
    }
    return value;
}

const uint8_t *take_bytes(struct reader *reader, size_t *count)
{
    *count = take_u32(reader);
    if (!has(reader, *count)) {
        *count = 0;
        return reader->end;
    }
    const uint8_t *bytes = reader->at;
    reader->at += *count;
    return bytes;
}

char *take_text(struct reader *reader)
{
    size_t count;
    const uint8_t *bytes = take_bytes(reader, &count);
    if (memchr(bytes, 0, count))
        reader->bad = true;
    char *text = malloc(count + 1);
    if (!text)
        _Exit(70);
    memcpy(text, bytes, count);
    text[count] = 0;
    return text;
}
