/* Prints the filter's program, one instruction per line: code, jump if true, jump if false, constant. */
#include "filter.c"

#include <stdio.h>

int main(void)
{
    filter_prepare();
    for (size_t i = 0; i < length; i++)
        printf("%u %u %u %u\n", code[i].code, code[i].jt, code[i].jf, code[i].k);
    return 0;
}
