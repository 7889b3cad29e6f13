"""Parameters of queries, by name: those that only track whoever follows a link. PURE.

Names count as they are written, capitals and all. None is here that some site may select its content by.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_WORD = re.compile(r"!?[A-Za-z0-9_.~$@:-](?:[A-Za-z0-9_.~$@:-]{1,99}\*?)?", re.ASCII)

_LISTED = """
utm_*
fbclid fb_action_ids fb_action_types fb_ref fb_source
gclid gclsrc dclid gbraid wbraid gad_source gad_campaignid srsltid _ga _gac _gl
msclkid yclid ysclid ymclid _openstat twclid ttclid li_fat_id ScCid rdt_cid epik igshid igsh
mc_cid mc_eid mc_tc mkt_tok ml_subscriber ml_subscriber_hash vero_conv vero_id oly_anon_id oly_enc_id
_hsenc _hsmi __hssc __hstc __hsfp hsCtaTracking
hsa_acc hsa_ad hsa_cam hsa_grp hsa_kw hsa_mt hsa_net hsa_src hsa_tgt hsa_ver
pk_campaign pk_cid pk_content pk_cpn pk_keyword pk_kwd pk_medium pk_source piwik_campaign piwik_keyword piwik_kwd
mtm_campaign mtm_cid mtm_content mtm_group mtm_keyword mtm_medium mtm_placement mtm_source
matomo_campaign matomo_keyword matomo_kwd
at_campaign at_medium at_custom1 at_custom2 at_custom3 at_custom4 wt_zmc
_kx bsft_clkid bsft_eid bsft_uid trk_contact trk_msg trk_module trk_sid s_kwcid ef_id
_branch_match_id _branch_referrer guccounter guce_referrer guce_referrer_sig
rb_clickid wickedid irclickid irgwc cjevent zanpid dicbo tblci
"""
TRACKING = tuple(_LISTED.split())


@dataclass(frozen=True, slots=True)
class Names:
    """Names of parameters, whole and by how they begin."""

    whole: frozenset[str] = frozenset()
    beginnings: tuple[str, ...] = ()

    def have(self, name: str) -> bool:
        return name in self.whole or name.startswith(self.beginnings)


def names(words: Iterable[str]) -> tuple[Names, list[str]]:
    """TRACKING with these words, and what is wrong with some of them: they are left out.

    A word is a name, or the beginning of names and `*`; `!` before it takes it out of TRACKING.
    """
    added, removed, problems = set(TRACKING), set(), []
    for word in words:
        if not _WORD.fullmatch(word):
            problems.append(f"{word!r} is neither a parameter's name nor the beginning of one with *")
        elif not word.startswith("!"):
            added.add(word)
        elif word[1:] in TRACKING:
            removed.add(word[1:])
        else:
            problems.append(f"{word!r}: there is no such name in the built-in list")
    found = added - removed
    beginnings = tuple(sorted(word[:-1] for word in found if word.endswith("*")))
    return Names(frozenset(word for word in found if not word.endswith("*")), beginnings), problems


def name_of(piece: str) -> str:
    """The name in `name=value`."""
    return piece.partition("=")[0]
